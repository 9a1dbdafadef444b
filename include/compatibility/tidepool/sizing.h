// Moved: include the header below.
#include "tidepool/trace/sizing.h"
