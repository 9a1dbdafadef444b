// SPDX-License-Identifier: Apache-2.0
// A trace for which the planner has to search.
#ifndef TIDEPOOL_TESTS_TRACE_REPLAY_HARD_TRACE_H_
#define TIDEPOOL_TESTS_TRACE_REPLAY_HARD_TRACE_H_

namespace tidepool {

// A trace with a peak of 17,920 live bytes, for which no plan is below 18,432.
inline constexpr char kHard[] =
    "id,lower,upper,size\n"
    "a,0,1,9216\nb,1,3,3072\nc,2,4,3072\nd,0,2,8704\ne,1,4,3072\nf,2,3,2560\ng,4,5,6144\n"
    "h,3,5,9216\ni,1,3,3072\n";

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_TRACE_REPLAY_HARD_TRACE_H_
