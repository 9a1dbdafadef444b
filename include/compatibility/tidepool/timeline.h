// Moved: include the header below.
#include "tidepool/schedule/timeline.h"
