// SPDX-License-Identifier: Apache-2.0
#include "lib/training/kernels/check_case.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "tidepool/training/kernel_table.h"

namespace tidepool::kernels {
namespace {

absl::Status Fault(const std::string& what) { return absl::InvalidArgumentError(what); }

// Written so that NaN is a fault.
bool IsTime(double seconds) { return seconds >= 0 && seconds <= kMostKernelSeconds; }

}  // namespace

absl::Status CheckRow(const KernelRow& row) {
  if (row.micro_batch < 1 || row.micro_batch > kMostKernelBatch) {
    return Fault(absl::StrCat("a micro-batch of ", row.micro_batch, " samples, expected 1 to ",
                              kMostKernelBatch));
  }
  if (row.algorithm < 0) {
    return Fault(absl::StrCat("the algorithm ", row.algorithm, ", expected 0 or more"));
  }
  if (!IsTime(row.seconds)) {
    return Fault(absl::StrCat("a time of ", row.seconds, " seconds, expected 0 to 1e9"));
  }
  if (row.workspace_bytes < 0 || row.workspace_bytes > kMostWorkspaceBytes) {
    return Fault(
        absl::StrCat("a workspace of ", row.workspace_bytes, " bytes, expected 0 to 2^62"));
  }
  return absl::OkStatus();
}

absl::Status CheckRow(const DeviceRow& row) {
  return CheckRow(KernelRow{.micro_batch = row.samples, .seconds = row.seconds});
}

namespace {

template <typename Row>
absl::Status CheckTables(const std::vector<std::vector<Row>>& tables, const char* noun) {
  if (tables.empty()) return Fault(absl::StrCat("no ", noun, ", expected one or more"));
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].empty()) {
      return Fault(absl::StrCat(noun, " ", i, " has no rows, expected one or more"));
    }
    for (std::size_t k = 0; k < tables[i].size(); ++k) {
      const absl::Status status = CheckRow(tables[i][k]);
      if (status.ok()) continue;
      return Fault(absl::StrCat(noun, " ", i, ", row ", k, ": ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const WorkspaceCase& question) {
  if (question.groups.empty()) return absl::OkStatus();
  if (question.kind != WorkspaceKind::kShared) {
    return Fault("groups of kernels that share no memory, expected the kind shared");
  }
  std::vector<int> seen(question.kernels.size());
  for (const std::vector<std::size_t>& group : question.groups) {
    for (const std::size_t kernel : group) {
      if (kernel >= seen.size() || seen[kernel]++ > 0) {
        return Fault(absl::StrCat("groups with the kernel ", kernel, ", expected each of 0 to ",
                                  seen.size() - 1, " once"));
      }
    }
  }
  const auto missing = std::find(seen.begin(), seen.end(), 0);
  if (missing == seen.end()) return absl::OkStatus();
  return Fault(absl::StrCat("groups without the kernel ", missing - seen.begin(),
                            ", expected each kernel in one"));
}

}  // namespace
}  // namespace tidepool::kernels

namespace tidepool {

using kernels::CheckGroups;
using kernels::CheckTables;
using kernels::Fault;

std::string_view KernelPrecisionName(KernelPrecision precision) {
  constexpr std::string_view kNames[] = {"TRUE_HALF", "PSEUDO_HALF", "FLOAT"};
  return kNames[static_cast<std::size_t>(precision)];
}

absl::Status ValidateWorkspaceCase(const WorkspaceCase& question) {
  if (question.batch < 1 || question.batch > kMostKernelBatch) {
    return Fault(absl::StrCat("a batch of ", question.batch, ", expected 1 to ", kMostKernelBatch));
  }
  if (question.kind == WorkspaceKind::kDevices) {
    if (question.multiple_of < 1) {
      return Fault(absl::StrCat("multiples of ", question.multiple_of, ", expected 1 or more"));
    }
    return CheckTables(question.devices, "device");
  }
  if (question.limit_bytes < 0 || question.limit_bytes > kMostWorkspaceBytes) {
    return Fault(absl::StrCat("a limit of ", question.limit_bytes, " bytes, expected 0 to 2^62"));
  }
  if (absl::Status status = CheckTables(question.kernels, "kernel"); !status.ok()) return status;
  return CheckGroups(question);
}

}  // namespace tidepool
