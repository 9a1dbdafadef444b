// Moved: include the header below.
#include "tidepool/trace/composition.h"
