// Moved: include the header below.
#include "tidepool/schedule/offloader.h"
