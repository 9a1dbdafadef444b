// Moved: include the header below.
#include "tidepool/schedule/offload_policy.h"
