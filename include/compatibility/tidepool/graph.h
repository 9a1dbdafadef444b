// Moved: include the header below.
#include "tidepool/schedule/graph.h"
