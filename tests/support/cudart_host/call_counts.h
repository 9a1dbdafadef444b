// The calls of the stand-in, counted by name, and which of them are to fail.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_CALL_COUNTS_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_CALL_COUNTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace tidepool::cudart_host {

// Thread-safe. The empty name stands for any function.
class CallCounts {
 public:
  // Counts a call. Returns the error that it is to fail with, 0 for none.
  int Enter(std::string_view function);
  std::int64_t Count(std::string_view function) const;
  void Order(std::string_view function, std::int64_t n, int error);
  void Clear();

 private:
  struct Counter {
    std::int64_t count = 0;
    std::int64_t failing = 0;  // the count of the call that is to fail
    int error = 0;
  };

  static int CountOne(Counter& counter);

  mutable std::mutex mutex_;
  std::map<std::string, Counter, std::less<>> counters_;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_CALL_COUNTS_H_
