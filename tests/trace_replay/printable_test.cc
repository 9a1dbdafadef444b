// SPDX-License-Identifier: Apache-2.0
// Printable lines: no control character passes, also where a name was not escaped.
#include "trace_replay/printable.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace tidepool {
namespace {

TEST(PrintableLines, PassLinesWithoutControlCharacters) {
  std::ostringstream out;
  {
    const tool::PrintableLines lines(out);
    out << "a\x1b[31m \xc2" << std::flush << "\x9b"
        << "31m\n\xc3\xa4 \xe2\x80\xa6\n\n\tlast\x7f";
  }
  EXPECT_EQ(out.str(), "a\\x1b[31m \\xc2\\x9b31m\n\xc3\xa4 \xe2\x80\xa6\n\n\\tlast\\x7f");
}

TEST(PrintableLines, TellThatTheirStreamCannotBeWritten) {
  std::ofstream out;  // of no file
  const tool::PrintableLines lines(out);
  out << "a\n";
  EXPECT_FALSE(out);
}

}  // namespace
}  // namespace tidepool
