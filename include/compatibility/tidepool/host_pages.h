// Moved: include the header below.
#include "tidepool/host/host_pages.h"
