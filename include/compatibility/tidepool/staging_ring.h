// Moved: include the header below.
#include "tidepool/host/staging_ring.h"
