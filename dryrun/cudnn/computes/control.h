// SPDX-License-Identifier: Apache-2.0
// The functions by which tests control the stand-in for cuDNN and query it. Programs that do not
// know the stand-in use the environment variable CUDNN_HOST_TABLE. All functions are thread-safe.
#ifndef TIDEPOOL_DRYRUN_CUDNN_COMPUTES_CONTROL_H_
#define TIDEPOOL_DRYRUN_CUDNN_COMPUTES_CONTROL_H_

#ifdef __cplusplus
extern "C" {
#endif

// Replaces the table of times and workspaces by the CSV text, null for none. The header is
// "pass,layer,samples,algorithm,milliseconds,workspace_bytes". The pass is forward, data or filter,
// the layer such as c48h27w27k128r5s5, or * for all. Where a pass of a layer has rows, all other
// algorithms are not supported for it. Returns 1, or 0 and changes nothing for a malformed table.
int cudnnHostSetTable(const char* csv);

// Lets the n-th call of `function` from now on (the next call is 1) return `status`, once and
// without any effect, except that objects are destroyed all the same. Null stands for any function.
// n = 0 cancels.
void cudnnHostFailCall(const char* function, long long n, int status);
// Returns the number of calls of `function` (null: of any function), including failed calls.
long long cudnnHostCountCalls(const char* function);

// Returns the number of convolutions that found their workspace changed while they ran: two of them
// used the same memory at a time.
long long cudnnHostCountRaces(void);

// Returns the objects (handles and descriptors) that exist.
long long cudnnHostCountLive(void);

#ifdef __cplusplus
}
#endif

#endif  // TIDEPOOL_DRYRUN_CUDNN_COMPUTES_CONTROL_H_
