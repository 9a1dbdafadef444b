// Moved: include the header below.
#include "tidepool/host/pinned_pool.h"
