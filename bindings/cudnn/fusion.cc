// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/fusion.h"

#include <deque>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudnn {
namespace {

// The fusions of the process, by number.
struct Fusions {
  locks::Mutex mutex;
  std::deque<std::pair<Fusion, std::string>> all ABSL_GUARDED_BY(mutex);
  std::map<std::string, std::int64_t> numbers ABSL_GUARDED_BY(mutex);

  static Fusions& Get() {
    static auto* const fusions = new Fusions();
    return *fusions;
  }
};

void Append(const std::vector<FixedAttribute>& attributes, std::string& text) {
  for (const FixedAttribute& its : attributes) {
    const absl::string_view bytes(reinterpret_cast<const char*>(its.bytes.data()),
                                  its.bytes.size());
    absl::StrAppend(&text, ",", static_cast<int>(its.name), "=", absl::BytesToHexString(bytes));
  }
}

}  // namespace

// Such as "virtual;tensor=0,2x1x1,2x1x1,fixed;pointwise,0=00000000,753:3".
std::string FusionText(const Fusion& fusion, int dimensions) {
  std::string text = fusion.keeps_output ? "kept" : "virtual";
  const auto count = static_cast<std::size_t>(dimensions);
  for (const FusedTensor& tensor : fusion.tensors) {
    const auto sizes = absl::MakeConstSpan(tensor.its.sizes).subspan(1, count - 1);
    const auto strides = absl::MakeConstSpan(tensor.its.strides).subspan(0, count);
    absl::StrAppend(&text, ";tensor=", static_cast<int>(tensor.its.type), ",",
                    absl::StrJoin(sizes, "x"), ",", absl::StrJoin(strides, "x"),
                    tensor.has_batch ? "" : ",fixed", tensor.is_virtual ? ",virtual" : "");
  }
  for (const FusedOperation& operation : fusion.operations) {
    absl::StrAppend(&text, ";pointwise");
    Append(operation.settings, text);
    Append(operation.scales, text);
    for (const auto& [name, tensor] : operation.tensors) {
      absl::StrAppend(&text, ",", static_cast<int>(name), ":", tensor);
    }
  }
  return text;
}

std::int64_t NumberOf(const Fusion& fusion, int dimensions) {
  std::string text = FusionText(fusion, dimensions);
  Fusions& fusions = Fusions::Get();
  const locks::MutexLock lock(&fusions.mutex);
  const auto [found, is_new] =
      fusions.numbers.try_emplace(text, static_cast<std::int64_t>(fusions.all.size()) + 1);
  if (is_new) fusions.all.emplace_back(fusion, std::move(text));
  return found->second;
}

const Fusion* FusionOf(std::int64_t number) {
  if (number == 0) return nullptr;
  Fusions& fusions = Fusions::Get();
  const locks::MutexLock lock(&fusions.mutex);
  return &fusions.all[static_cast<std::size_t>(number - 1)].first;
}

const std::string& TextOfFusion(std::int64_t number) {
  Fusions& fusions = Fusions::Get();
  const locks::MutexLock lock(&fusions.mutex);
  return fusions.all[static_cast<std::size_t>(number - 1)].second;
}

}  // namespace tidepool::cudnn
