// Moved: include the header below.
#include "tidepool/schedule/schedule.h"
