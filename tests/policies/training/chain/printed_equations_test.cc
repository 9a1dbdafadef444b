// SPDX-License-Identifier: Apache-2.0
// Beaumont et al.'s equations exactly as printed. Each error is put alone into otherwise corrected
// recurrences, and makes Algorithm 1 miss the optimum that the oracle, or brute force over true
// schedules of whole transfers, shows. The library has the corrected ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "policies/training/chain/paper_values.h"
#include "tests/training/chain/chain_vectors.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using testing::AreClose;
using testing::RandomChains;

enum class Printed : std::uint8_t {
  kNothing,
  kDeltas,          // Algorithm 1's tests subtract Delta_F and Delta_B, also negative ones
  kGradientBefore,  // |y_(j-1)| in R_j^B
  kHalf,            // "/2" in the bound of epsilon_G
  kForwardExtra,    // ex^F in equation (6)
  kLastGradient,    // R_j^F without -|y_(L+1)|
  kSignedMemory,    // M_B - Delta_B = |y_i| + M_F - Delta_F without positive parts
  kEverything,      // all of these
};

constexpr Printed kErrors[] = {
    Printed::kDeltas,       Printed::kGradientBefore, Printed::kHalf,      Printed::kForwardExtra,
    Printed::kLastGradient, Printed::kSignedMemory,   Printed::kEverything};

struct PrintedState {
  double m_f = 0;
  double delta_f = 0;
  double delta_b = 0;
  double idle = 0;
};

double Positive(double value) { return std::max(0.0, value); }

// Algorithm 1 over all sets, by recursion, in the paper's notation. Times are bytes.
class PrintedProgram {
 public:
  PrintedProgram(const Chain& chain, Printed printed) : c_(chain), printed_(printed) {}

  // Returns the least total time, in seconds; infinite when nothing fits.
  double LeastSeconds() const {
    const double idle = Least(0, {.m_f = Double(c_.x[0])});
    return ChainSeconds(c_) + idle / c_.link_bytes_per_second;
  }

 private:
  bool Has(Printed error) const { return printed_ == error || printed_ == Printed::kEverything; }
  static double Double(std::int64_t value) { return static_cast<double>(value); }
  double X(std::size_t i) const { return Double(c_.x[i]); }
  double Y(std::size_t i) const { return Double(c_.y[i]); }
  double Forward(std::size_t i) const { return c_.forward_seconds[i] * c_.link_bytes_per_second; }
  double Backward(std::size_t i) const { return c_.backward_seconds[i] * c_.link_bytes_per_second; }
  double Memory() const { return Double(c_.memory_bytes); }
  std::size_t Last() const { return c_.forward_seconds.size() - 1; }

  double MemoryBackward(std::size_t i, const PrintedState& s) const {
    if (Has(Printed::kSignedMemory)) return Y(i) + s.delta_b + s.m_f - s.delta_f;
    return Y(i) + Positive(s.delta_b) + s.m_f - Positive(s.delta_f);
  }

  bool Fits(std::size_t i, const PrintedState& s) const {
    const bool is_printed = Has(Printed::kDeltas);
    const double away_f = is_printed ? s.delta_f : Positive(s.delta_f);
    const double away_b = is_printed ? s.delta_b : Positive(s.delta_b);
    return s.m_f + Double(c_.forward_extra[i]) - away_f + X(i + 1) <= Memory() &&
           MemoryBackward(i, s) + Double(c_.backward_extra[i]) + X(i + 1) + Y(i + 1) - away_b <=
               Memory();
  }

  double Least(std::size_t i, const PrintedState& s) const {
    if (i > Last()) return s.idle + Gap(s);
    if (!Fits(i, s)) return std::numeric_limits<double>::infinity();
    const double extra_b =
        Double(Has(Printed::kForwardExtra) ? c_.forward_extra[i] : c_.backward_extra[i]);
    const double wait_f = Positive(s.m_f + Double(c_.forward_extra[i]) + X(i + 1) - Memory());
    const double wait_b = Positive(MemoryBackward(i, s) + extra_b + X(i + 1) + Y(i + 1) - Memory());
    const double time_f = wait_f + Forward(i);
    const double time_b = wait_b + Backward(i);
    const double queue = Positive(s.delta_f);
    const double idle = s.idle + wait_f + wait_b;
    const PrintedState moved = {.m_f = s.m_f + X(i + 1) - std::min(queue + X(i), time_f),
                                .delta_f = queue + X(i) - time_f,
                                .delta_b = X(i) + Positive(s.delta_b - time_b),
                                .idle = idle};
    const PrintedState kept = {.m_f = s.m_f + X(i + 1) - std::min(queue, time_f),
                               .delta_f = s.delta_f - time_f,
                               .delta_b = s.delta_b - time_b,
                               .idle = idle};
    return std::min(Least(i + 1, moved), Least(i + 1, kept));
  }

  double Gap(const PrintedState& s) const {
    if (s.delta_f > 0 && s.delta_b > 0) return s.delta_f + s.delta_b;
    if (s.delta_f > 0) return GapOfOffloads(s);
    if (s.delta_b > 0) return GapOfPrefetches(s);
    return 0;
  }

  // Equation (9).
  double GapOfOffloads(const PrintedState& s) const {
    const double available = -s.delta_b;
    double gap = Positive(s.delta_f - available);
    double passed = 0;
    double gone = 0;
    for (std::size_t j = Last() + 1; j-- > 0 && passed < available;) {
      double next = Y(j + 1);
      if (Has(Printed::kGradientBefore)) next = j > 0 ? Y(j - 1) : 0;
      double needed = Double(c_.backward_extra[j]) + Y(j) + next - gone + s.m_f - Memory();
      if (Has(Printed::kHalf)) needed /= 2;
      gap = std::max(gap, needed - passed);
      passed += Backward(j);
      gone += X(j + 1);
    }
    return gap;
  }

  // Equation (10).
  double GapOfPrefetches(const PrintedState& s) const {
    const double available = -s.delta_f;
    const double last_gradient = Has(Printed::kLastGradient) ? 0 : Y(Last() + 1);
    double gap = Positive(s.delta_b - available);
    double passed = 0;
    double not_made = 0;
    for (std::size_t j = Last() + 1; j-- > 0 && passed < available;) {
      const double needed = Double(c_.forward_extra[j]) - not_made - last_gradient;
      gap = std::max(gap, needed + MemoryBackward(Last() + 1, s) - Memory() - passed);
      passed += Forward(j);
      not_made += X(j + 1);
    }
    return gap;
  }

  const Chain& c_;
  const Printed printed_;
};

// Returns how many of many random chains get another optimum.
int Differences(Printed printed) {
  RandomChains random(17);
  int differences = 0;
  for (int k = 0; k < 1000; ++k) {
    const Chain chain = random.Next(static_cast<std::size_t>(random.Below(6)) + 1);
    const double optimum = chain_policies::FindFractionalOptimum(chain)->seconds;
    differences += AreClose(PrintedProgram(chain, printed).LeastSeconds(), optimum) ? 0 : 1;
  }
  return differences;
}

TEST(PrintedEquations, AreRightWhenCorrected) { EXPECT_EQ(Differences(Printed::kNothing), 0); }

TEST(PrintedEquations, NeedPositivePartsInTheTestsOfMemory) {
  EXPECT_GT(Differences(Printed::kDeltas), 50);
}
TEST(PrintedEquations, NeedTheNextGradientInTheGap) {
  EXPECT_GT(Differences(Printed::kGradientBefore), 0);
}
TEST(PrintedEquations, NeedTheRateInTheGap) { EXPECT_GT(Differences(Printed::kHalf), 0); }
TEST(PrintedEquations, NeedBackwardBytesInEquation6) {
  EXPECT_GT(Differences(Printed::kForwardExtra), 50);
}
TEST(PrintedEquations, NeedTheLastGradientInEquation10) {
  EXPECT_GT(Differences(Printed::kLastGradient), 0);
}
TEST(PrintedEquations, NeedPositivePartsInTheBackwardMemory) {
  EXPECT_GT(Differences(Printed::kSignedMemory), 50);
}

TEST(PrintedEquations, FailOnTheOraclesExamples) {
  TIDEPOOL_SKIP_WITHOUT(testing::ChainVectors());
  int found = 0;
  for (const testing::ChainVector& vector : testing::ReadChainVectors()) {
    if (!vector.name.starts_with("typo_")) continue;
    SCOPED_TRACE(vector.name);
    const double expected = vector.expect["dp_fractional_makespan"];
    EXPECT_TRUE(AreClose(PrintedProgram(vector.chain, Printed::kNothing).LeastSeconds(), expected));
    bool fails = false;
    for (const Printed error : kErrors) {
      fails |= !AreClose(PrintedProgram(vector.chain, error).LeastSeconds(), expected);
    }
    EXPECT_TRUE(fails);
    ++found;
  }
  EXPECT_GE(found, 4);
}

// All offloads before all prefetches, as Lemma 3 assumes, is not optimal: a schedule of whole
// transfers that mixes them is faster than the optimum of interrupted ones.
TEST(PrintedEquations, HaveAnOptimumThatIsNoBound) {
  TIDEPOOL_SKIP_WITHOUT(testing::ChainVectors());
  int found = 0;
  for (const testing::ChainVector& vector : testing::ReadChainVectors()) {
    if (vector.name != "lemma3_counterexample") continue;
    EXPECT_LT(vector.expect["true_optimum"].get<double>(),
              chain_policies::FindFractionalOptimum(vector.chain)->seconds);
    EXPECT_LE(ChainOperationBound(vector.chain), vector.expect["true_optimum"].get<double>());
    ++found;
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace tidepool
