// Moved: include the header below.
#include "tidepool/trace/output_file.h"
