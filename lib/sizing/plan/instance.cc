#include "lib/sizing/plan/instance.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <span>

namespace tidepool::sizing {
namespace {

// All times at which buffers begin or end, each once, ascending.
std::vector<std::int64_t> Times(const PlanProblem& problem,
                                std::span<const std::uint32_t> members) {
  std::vector<std::int64_t> times;
  times.reserve(2 * members.size());
  for (const std::uint32_t i : members) {
    times.push_back(problem.buffers[i].lower);
    times.push_back(problem.buffers[i].upper);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

// The last times before what is live shrinks: one in every section.
std::vector<std::int64_t> SectionTimes(const PlanProblem& problem,
                                       std::span<const std::uint32_t> members) {
  const std::vector<std::int64_t> times = Times(problem, members);
  const auto index = [&](std::int64_t time) {
    return std::lower_bound(times.begin(), times.end(), time) - times.begin();
  };
  std::vector<bool> begins(times.size());
  std::vector<bool> ends(times.size());
  for (const std::uint32_t i : members) {
    begins[index(problem.buffers[i].lower)] = true;
    ends[index(problem.buffers[i].upper)] = true;
  }
  std::vector<std::int64_t> sections;
  bool grew = false;
  for (std::size_t t = 0; t < times.size(); ++t) {
    if (ends[t] && grew) sections.push_back(times[t - 1]);
    grew = begins[t] || (grew && !ends[t]);
  }
  return sections;
}

std::int64_t Unit(const PlanProblem& problem, std::span<const std::uint32_t> members) {
  std::int64_t unit = 0;
  for (const std::uint32_t i : members) {
    unit = std::gcd(unit, problem.buffers[i].bytes);
    if (problem.buffers[i].alignment > 1) unit = std::gcd(unit, problem.buffers[i].alignment);
  }
  return unit;
}

std::vector<std::int64_t> Load(const Instance& instance, std::int32_t sections,
                               const std::vector<std::int64_t>& size) {
  std::vector<std::int64_t> load(sections + 1);
  for (std::int32_t i = 0; i < instance.count(); ++i) {
    load[instance.first[i]] += size[i];
    load[instance.end[i]] -= size[i];
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  load.pop_back();
  return load;
}

// Where all offsets are multiples of an alignment, buffers take up multiples of it, but for the
// highest one.
std::int64_t LowerBound(const Instance& instance) {
  const std::int64_t load = *std::max_element(instance.load.begin(), instance.load.end());
  const std::int64_t common =
      *std::min_element(instance.alignment.begin(), instance.alignment.end());
  if (common == 1) return load;
  std::vector<std::int64_t> rounded(instance.size.size());
  std::int64_t largest_tail = 0;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    rounded[i] = AlignUp(instance.size[i], common);
    largest_tail = std::max(largest_tail, rounded[i] - instance.size[i]);
  }
  const std::vector<std::int64_t> taken = Load(instance, instance.sections(), rounded);
  return std::max(load, *std::max_element(taken.begin(), taken.end()) - largest_tail);
}

Instance ToInstance(const PlanProblem& problem, std::span<const std::uint32_t> members) {
  Instance instance;
  instance.unit = Unit(problem, members);
  const std::vector<std::int64_t> times = SectionTimes(problem, members);
  const auto section = [&](std::int64_t time) {
    return static_cast<std::int32_t>(std::lower_bound(times.begin(), times.end(), time) -
                                     times.begin());
  };
  instance.buffer.assign(members.begin(), members.end());
  for (const std::uint32_t i : members) {
    const PlanBuffer& buffer = problem.buffers[i];
    instance.first.push_back(section(buffer.lower));
    instance.end.push_back(section(buffer.upper));
    instance.size.push_back(buffer.bytes / instance.unit);
    instance.alignment.push_back(std::max<std::int64_t>(1, buffer.alignment / instance.unit));
    instance.duration.push_back(static_cast<double>(buffer.upper) -
                                static_cast<double>(buffer.lower));
    instance.is_aligned &= instance.alignment.back() == 1;
  }
  instance.load = Load(instance, static_cast<std::int32_t>(times.size()), instance.size);
  instance.lower_bound = LowerBound(instance);
  return instance;
}

}  // namespace

std::int64_t Height(const Instance& instance, const Offsets& offsets) {
  std::int64_t height = 0;
  for (std::int32_t i = 0; i < instance.count(); ++i) {
    height = std::max(height, offsets[i] + instance.size[i]);
  }
  return height;
}

std::vector<Instance> ToInstances(const PlanProblem& problem) {
  const std::vector<PlanBuffer>& buffers = problem.buffers;
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return buffers[a].lower < buffers[b].lower;
  });
  std::vector<Instance> instances;
  for (std::size_t begin = 0; begin < order.size();) {
    std::int64_t until = buffers[order[begin]].upper;
    std::size_t end = begin + 1;
    for (; end < order.size() && buffers[order[end]].lower < until; ++end) {
      until = std::max(until, buffers[order[end]].upper);
    }
    instances.push_back(ToInstance(problem, std::span(order).subspan(begin, end - begin)));
    begin = end;
  }
  return instances;
}

std::vector<double> RangeMaxima(const std::vector<double>& values,
                                const std::vector<std::int32_t>& first,
                                const std::vector<std::int32_t>& end) {
  // Level k has the maxima of 2^k values each; two of them that may overlap cover any range.
  std::vector<std::vector<double>> levels = {values};
  for (std::size_t half = 1; 2 * half <= values.size(); half *= 2) {
    const std::vector<double>& below = levels.back();
    std::vector<double> level(values.size() - 2 * half + 1);
    for (std::size_t i = 0; i < level.size(); ++i) level[i] = std::max(below[i], below[i + half]);
    levels.push_back(std::move(level));
  }
  std::vector<double> maxima(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::size_t length = std::bit_floor(static_cast<std::size_t>(end[i] - first[i]));
    const std::vector<double>& level = levels[std::countr_zero(length)];
    maxima[i] = std::max(level[first[i]], level[end[i] - length]);
  }
  return maxima;
}

}  // namespace tidepool::sizing
