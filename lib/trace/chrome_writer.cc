#include <ostream>

#include "lib/trace/format.h"
namespace tidepool::internal {
absl::Status WriteChromeTrace(const Trace& trace, std::ostream& out) {
  (void)trace;
  (void)out;
  return absl::UnimplementedError("expected");
}
}  // namespace tidepool::internal
