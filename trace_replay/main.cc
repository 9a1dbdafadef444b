// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/program.h"

int main(int argc, char** argv) { return tidepool::tool::RunProgram(argc, argv); }
