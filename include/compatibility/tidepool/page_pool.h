// Moved: include the header below.
#include "tidepool/host/page_pool.h"
