// Moved: include the header below.
#include "tidepool/compress/compression_pipeline.h"
