#include "lib/plan/side_by_side.h"

#include <system_error>
#include <thread>
#include <vector>

namespace tidepool::plan {

void SideBySide(std::size_t count, const std::function<void(std::size_t)>& part) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  std::size_t next = 1;
  try {
    for (; next < count; ++next) threads.emplace_back(part, next);
  } catch (const std::system_error&) {
  }
  if (count > 0) part(0);
  for (; next < count; ++next) part(next);
}

}  // namespace tidepool::plan
