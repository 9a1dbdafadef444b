// SPDX-License-Identifier: Apache-2.0
// Computes ticks and labels of drawings.
#include "trace_replay/report/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "trace_replay/text.h"

namespace tidepool::tool {

const char* const kPlotStyle = R"(
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;fill:#16202a}
.h{font-size:15px;font-weight:600}.b{font-weight:600}.t{fill:#55636f}.e{text-anchor:end}.m{text-anchor:middle}
.page{fill:#fff}.grid{stroke:#e3e8ec;fill:none}.free{fill:#f3f5f7}.hole{fill:#e2e7eb}.hatch{stroke:#c6ced6}.mark{stroke:#16202a;stroke-opacity:.22}
.area{fill:#1d6f8a;fill-opacity:.16}.live{stroke:#1d6f8a;fill:none;stroke-width:1.3}.k-live{fill:#1d6f8a}
.line{fill:none;stroke-width:1.6}.budget{stroke:#b3261e;stroke-width:2.2}.reserved{stroke:#6b7681}.k-budget{fill:#b3261e}.k-reserved{fill:#6b7681}
.p0{stroke:#d55e00}.p1{stroke:#009e73}.p2{stroke:#cc79a7}.p3{stroke:#e69f00}.p4{stroke:#56b4e9}.k0{fill:#d55e00}.k1{fill:#009e73}.k2{fill:#cc79a7}.k3{fill:#e69f00}.k4{fill:#56b4e9}
.s0{fill:#f6c85f}.s1{fill:#f29e4c}.s2{fill:#e2725b}.s3{fill:#bf4f7a}.s4{fill:#8e4191}.s5{fill:#5a3d99}.s6{fill:#2b3a85}.x{stroke:#fff;stroke-width:.5}
@media(prefers-color-scheme:dark){text{fill:#e6ebf0}.t{fill:#a3b0bc}
.page{fill:#171d24}.grid{stroke:#2a333d}.free{fill:#1c232b}.hole{fill:#262f39}.hatch{stroke:#3d4955}.mark{stroke:#e6ebf0}
.area{fill:#5bb5d0;fill-opacity:.2}.live{stroke:#5bb5d0}.k-live{fill:#5bb5d0}.budget{stroke:#ff8a80}.reserved{stroke:#8c99a5}.k-budget{fill:#ff8a80}.k-reserved{fill:#8c99a5}
.p0{stroke:#f0803c}.p1{stroke:#2fc497}.p2{stroke:#e29cc3}.p3{stroke:#f0b73d}.p4{stroke:#8fd0f5}.k0{fill:#f0803c}.k1{fill:#2fc497}.k2{fill:#e29cc3}.k3{fill:#f0b73d}.k4{fill:#8fd0f5}
.s0{fill:#5f58b8}.s1{fill:#8a55b5}.s2{fill:#b5569f}.s3{fill:#da6583}.s4{fill:#ef8468}.s5{fill:#f6ac5b}.s6{fill:#f8dc78}.x{stroke:#171d24}}
)";

std::string Place(double value) { return absl::StrFormat("%.5g", std::round(value * 10) / 10); }

double DecimalStep(double range, int most) {
  const double least = std::max(range / most, 1.0);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const int factor : {1, 2, 5}) {
    if (factor * power >= least * 0.999) return factor * power;
  }
  return 10 * power;
}

double ByteStep(double range, int most) {
  const double least = std::max(range / most, 1.0);
  for (int shift = 0; shift < 60; shift += 10) {
    for (const int factor : {1, 2, 5, 10, 20, 50, 100, 200, 256, 512}) {
      const double step = std::ldexp(factor, shift);
      if (step >= least * 0.999) return step;
    }
  }
  return least;
}

std::string TickText(double bytes) {
  if (bytes == 0) return "0";
  return absl::StrReplaceAll(SizeText(static_cast<std::int64_t>(bytes)), {{".0 ", " "}});
}

void Spread(std::vector<Label>& labels, double height, double from, double to) {
  std::stable_sort(labels.begin(), labels.end(),
                   [](const Label& a, const Label& b) { return a.at < b.at; });
  double least = from;
  for (Label& label : labels) {
    label.y = std::max(label.at, least);
    least = label.y + height;
  }
  double most = to;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->y = std::min(label->y, most);
    most = label->y - height;
  }
}

}  // namespace tidepool::tool
