// SPDX-License-Identifier: Apache-2.0
// The answer of `size` for several traces.
#include "trace_replay/commands/job_sizes.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/text.h"

namespace tidepool::tool {

void JobSizes::AddPool(const std::string& policy, std::int64_t pool_bytes) {
  const std::size_t rank = ranks_.size() - 1;
  const auto known = std::find_if(pools_.begin(), pools_.end(),
                                  [&](const Pool& pool) { return pool.policy == policy; });
  if (known == pools_.end()) {
    pools_.push_back({policy, pool_bytes, rank});
  } else if (pool_bytes > known->bytes) {
    *known = {policy, pool_bytes, rank};
  }
}

bool JobSizes::LacksHistory() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return !rank.has_history; });
}

bool JobSizes::Fits(std::int64_t memory_bytes) const {
  return memory_bytes < 0 || needs_bytes() <= memory_bytes;
}

nlohmann::ordered_json JobSizes::Json(std::int64_t memory_bytes) const {
  nlohmann::ordered_json json = JobJson(ranks_);
  json["policies"] = nlohmann::ordered_json::array();
  for (const Pool& pool : pools_) {
    json["policies"].push_back(
        {{"policy", pool.policy}, {"pool_bytes", pool.bytes}, {"rank", pool.rank}});
  }
  if (memory_bytes < 0) return json;
  json["fits"] = {{"bytes", memory_bytes},
                  {"fits", Fits(memory_bytes)},
                  {"missing_bytes", needs_bytes() - memory_bytes}};
  if (Fits(memory_bytes) && LacksHistory()) {
    json["fits"]["fits"] = json["fits"]["missing_bytes"] = nullptr;
  }
  return json;
}

std::string JobSizes::Text(std::int64_t memory_bytes) const {
  std::vector<std::vector<std::string>> rows = {{"policy", "largest pool", "rank"}};
  for (const Pool& pool : pools_) {
    rows.push_back(
        {pool.policy, PoolSizeText(pool.bytes), absl::CHexEscape(ranks_[pool.rank].file)});
  }
  std::string text = JobText(ranks_);
  if (!pools_.empty()) absl::StrAppend(&text, "\n", TableText(rows));
  if (memory_bytes < 0) return text;
  absl::StrAppend(&text, "\n");
  for (const Rank& rank : ranks_) {
    const std::int64_t missing = rank.needs_bytes - memory_bytes;
    if (missing <= 0) continue;
    absl::StrAppend(&text, "  ", absl::CHexEscape(rank.file), " does not fit in ",
                    SizeText(memory_bytes), ": ", SizeText(missing), " missing\n");
  }
  if (!Fits(memory_bytes)) return text;
  if (LacksHistory()) {
    return absl::StrCat(text, "  the known needs fit in ", SizeText(memory_bytes),
                        "; whether the ranks of unknown peak do is not known\n");
  }
  return absl::StrCat(text, "  all ranks fit in ", SizeText(memory_bytes), ": ",
                      SizeText(memory_bytes - needs_bytes()), " to spare\n");
}

}  // namespace tidepool::tool
