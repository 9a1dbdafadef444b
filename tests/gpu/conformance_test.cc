// A GPU does what every device must do. Its managed memory is left to the stand-in runtime: asking
// a GPU for more of it than there is can hang the machine.
#include "tests/device/conformance.h"

#include "tidepool/cuda_device.h"

namespace tidepool {
namespace {

std::unique_ptr<Device> MakeGpu() { return *CudaDevice::Create({}); }

TIDEPOOL_INSTANTIATE_DEVICE_CONFORMANCE(Gpu, MakeGpu);

}  // namespace
}  // namespace tidepool
