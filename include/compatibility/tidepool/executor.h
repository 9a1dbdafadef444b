// Moved: include the header below.
#include "tidepool/schedule/executor.h"
