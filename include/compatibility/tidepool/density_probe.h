// Moved: include the header below.
#include "tidepool/compress/density_probe.h"
