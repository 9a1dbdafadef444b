// Work of equal parts on threads of their own.
#ifndef TIDEPOOL_LIB_PLAN_SIDE_BY_SIDE_H_
#define TIDEPOOL_LIB_PLAN_SIDE_BY_SIDE_H_

#include <cstddef>
#include <functional>

namespace tidepool::plan {

// Calls part(0) to part(count - 1), the first one on the caller's thread, and returns when all are
// done. Those for which the system has no thread follow on the caller's.
void SideBySide(std::size_t count, const std::function<void(std::size_t)>& part);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_SIDE_BY_SIDE_H_
