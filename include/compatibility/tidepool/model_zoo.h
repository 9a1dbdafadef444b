// Moved: include the header below.
#include "tidepool/schedule/model_zoo.h"
