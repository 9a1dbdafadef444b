// SPDX-License-Identifier: Apache-2.0
// Figures of ranks side by side.
#include "trace_replay/commands/ranks.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

// Returns 1 for ranks that need nothing.
double Imbalance(const std::vector<Rank>& ranks) {
  double sum = 0;
  for (const Rank& rank : ranks) sum += static_cast<double>(rank.needs_bytes);
  if (sum == 0) return 1;
  return static_cast<double>(ranks[WorstRank(ranks)].needs_bytes) *
         static_cast<double>(ranks.size()) / sum;
}

std::string RefusedText(const Rank& rank) {
  if (rank.refused_bytes.empty()) return "-";
  std::string most =
      SizeText(*std::max_element(rank.refused_bytes.begin(), rank.refused_bytes.end()));
  if (rank.refused_bytes.size() == 1) return most;
  return absl::StrCat(rank.refused_bytes.size(), ", up to ", most);
}

}  // namespace

Rank RankOf(const std::string& file, const MeasuredTrace& measured) {
  Rank rank;
  rank.file = file;
  rank.has_history = measured.trace->has_history;
  rank.live_bytes = rank.has_history ? measured.load.peak_live_bytes : measured.load.unfreed_bytes;
  rank.needs_bytes = measured.demand.needs_bytes;
  if (measured.reserved.has_value()) rank.reserved_bytes = measured.reserved->peak_reserved_bytes;
  for (const RefusedRequest& refused : measured.demand.refused) {
    rank.refused_bytes.push_back(refused.bytes);
  }
  return rank;
}

std::size_t WorstRank(const std::vector<Rank>& ranks) {
  const auto worst = std::max_element(ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) {
    return a.needs_bytes < b.needs_bytes;
  });
  return static_cast<std::size_t>(worst - ranks.begin());
}

nlohmann::ordered_json JobJson(const std::vector<Rank>& ranks) {
  return {{"needs_bytes", ranks[WorstRank(ranks)].needs_bytes},
          {"worst", WorstRank(ranks)},
          {"imbalance", Imbalance(ranks)}};
}

std::string JobText(const std::vector<Rank>& ranks) {
  std::vector<std::vector<std::string>> rows = {
      {"rank", "peak live", "needs", "reserved", "refused"}};
  bool lacks_history = false;
  for (const Rank& rank : ranks) {
    lacks_history |= !rank.has_history;
    rows.push_back({absl::CHexEscape(rank.file),
                    rank.has_history ? SizeText(rank.live_bytes) : "not known",
                    absl::StrCat(rank.has_history ? "" : "at least ", SizeText(rank.needs_bytes)),
                    rank.reserved_bytes.has_value() ? SizeText(*rank.reserved_bytes) : "-",
                    RefusedText(rank)});
  }
  const Rank& worst = ranks[WorstRank(ranks)];
  std::string text =
      absl::StrCat("a job of ", ranks.size(), " ranks\n", TableText(rows), "\n  ",
                   absl::CHexEscape(worst.file), " needs the most, ", SizeText(worst.needs_bytes),
                   ": ", RatioText(Imbalance(ranks)), " of the mean\n");
  if (lacks_history)
    absl::StrAppend(&text, "  ranks of unknown peak: ", std::string(kNoHistory), "\n");
  return text;
}

CLI::Option* AddRanksArgument(CLI::App& app, std::vector<std::string>& paths) {
  return app
      .add_option("TRACE", paths,
                  "The trace file: any format, recognised by its content, compressed by gzip or "
                  "not; several files are the ranks of one job")
      ->required();
}

}  // namespace tidepool::tool
