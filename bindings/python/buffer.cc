// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/buffer.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bindings/python/errors.h"
#include "bindings/python/work.h"

namespace tidepool::python {
namespace {

namespace nb = nanobind;

Allocation& Live(const Buffer& buffer) {
  if (buffer.allocation == nullptr) throw nb::buffer_error("the buffer was freed");
  return *buffer.allocation;
}

// Returns an object that exports the memory, and shares it.
nb::object ArrayOf(const Buffer& buffer) {
  static std::uint8_t no_bytes = 0;
  const Allocation& live = Live(buffer);
  auto* const shared = new std::shared_ptr<Allocation>(buffer.allocation);
  const nb::capsule owner(shared, [](void* pointer) noexcept {
    delete static_cast<std::shared_ptr<Allocation>*>(pointer);
  });
  using Bytes = nb::ndarray<nb::array_api, std::uint8_t, nb::ndim<1>, nb::device::cpu>;
  void* const address = live.bytes() == 0 ? &no_bytes : live.address();
  return nb::cast(Bytes(address, {live.bytes()}, owner));
}

// Fills in a view for the buffer protocol. The view belongs to the exporting object, not to the
// buffer, which may be freed before it.
int GetView(PyObject* self, Py_buffer* view, int flags) noexcept {
  try {
    const nb::object array = ArrayOf(nb::cast<const Buffer&>(nb::handle(self)));
    return PyObject_GetBuffer(array.ptr(), view, flags);
  } catch (const std::exception& error) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, error.what());
    return -1;
  }
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetView)}, {0, nullptr}};

nb::object DlPack(const Buffer& buffer, const nb::kwargs& options) {
  return ArrayOf(buffer).attr("__dlpack__")(**options);
}

// Returns a NumPy array that views the memory.
nb::object NumPyArray(const Buffer& buffer, const nb::object& dtype, const nb::object& shape) {
  const nb::object bytes = nb::module_::import_("numpy").attr("frombuffer")(ArrayOf(buffer), dtype);
  return shape.is_none() ? bytes : bytes.attr("reshape")(shape);
}

void Free(Buffer& buffer, std::shared_ptr<HostStream> stream) {
  if (buffer.allocation == nullptr) return;
  Check(buffer.allocation->CheckProcess());
  if (stream != nullptr) Check(buffer.allocation->FreeOn(std::move(stream)));
  buffer.allocation.reset();
}

void Synchronize(const std::shared_ptr<HostStream>& stream) {
  if (Check(stream->IsIdle())) return;
  const auto status = std::make_shared<absl::Status>();
  RunWork([=](const WorkContext&) { *status = stream->Synchronize(); });
  Check(*status);
}

void AddStream(nb::module_& module) {
  nb::class_<HostStream>(
      module, "Stream",
      "A stream of a pool: work that runs in order, beside that of other "
      "streams. Pool.stream() makes it.\n\nQueued work uses its buffers until it "
      "has run, also if they are freed before.")
      .def(
          "fill",
          [](HostStream& stream, const Buffer& buffer, std::uint8_t value) {
            Check(stream.Fill(Live(buffer), value));
          },
          nb::arg("buffer"), nb::arg("value"),
          nb::sig("def fill(self, buffer: Buffer, value: int) -> None"),
          "Queues setting each byte of a buffer to a value from 0 to 255.")
      .def(
          "copy",
          [](HostStream& stream, const Buffer& to, const Buffer& from) {
            Check(stream.Copy(Live(to), Live(from)));
          },
          nb::arg("to"), nb::arg("source"),
          nb::sig("def copy(self, to: Buffer, source: Buffer) -> None"),
          "Queues a copy between two buffers of the same size.")
      .def(
          "wait", [](HostStream& stream, const HostStream& other) { Check(stream.Wait(other)); },
          nb::arg("other"),
          "Makes work that is queued from now on wait for the work that `other` has by now.")
      .def("synchronize", &Synchronize, "Waits until all work queued so far has finished.");
}

std::string Describe(const Buffer& buffer) {
  if (buffer.allocation == nullptr) return "<tidepool.Buffer, freed>";
  return absl::StrCat("<tidepool.Buffer of ", buffer.allocation->bytes(), " bytes>");
}

}  // namespace

void AddBuffer(nb::module_& module) {
  AddStream(module);
  nb::class_<Buffer>(module, "Buffer", nb::type_slots(slots),
                     "Memory of a pool.\n\n"
                     "numpy.asarray(buffer), numpy.from_dlpack(buffer) and memoryview(buffer) view "
                     "it without a copy. The memory\nreturns to the pool when the buffer is freed, "
                     "by free(), at the end of a with block or by del, and no array views it.")
      .def_prop_ro(
          "nbytes", [](const Buffer& buffer) { return Live(buffer).bytes(); },
          "The bytes that were asked for.")
      .def_prop_ro(
          "address",
          [](const Buffer& buffer) {
            return reinterpret_cast<std::uintptr_t>(Live(buffer).address());
          },
          "The first address; 0 for a buffer of zero bytes.")
      .def_prop_ro(
          "freed", [](const Buffer& buffer) { return buffer.allocation == nullptr; },
          "Whether free() was called.")
      .def(
          "free", &Free, nb::arg("stream").none() = nb::none(),
          nb::sig("def free(self, stream: Stream | None = None) -> None"),
          "Gives the memory back as soon as no array views it. Freeing twice does nothing.\n\nWork "
          "that is queued later on `stream`, by default that of the allocation, may get the memory "
          "at once.\nOther streams that get it wait for the work of that stream.")
      .def(
          "record_use",
          [](const Buffer& buffer, const std::shared_ptr<HostStream>& stream) {
            Check(Live(buffer).RecordUse(stream));
          },
          nb::arg("stream"),
          "Notes that work queued on `stream` before the free uses the buffer. Stream.fill and "
          "Stream.copy do so themselves.")
      .def("array", &NumPyArray, nb::arg("dtype") = "uint8", nb::arg("shape").none() = nb::none(),
           nb::sig("def array(self, dtype: typing.Any = 'uint8', shape: typing.Any = None) -> "
                   "typing.Any"),
           "Returns a NumPy array that views the memory, by default of bytes in one dimension.")
      .def("__len__", [](const Buffer& buffer) { return Live(buffer).bytes(); })
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Buffer"))
      .def(
          "__exit__",
          [](Buffer& buffer, const nb::args& /*exception*/) { buffer.allocation.reset(); },
          nb::sig("def __exit__(self, *exception: object) -> None"))
      .def("__dlpack__", &DlPack, nb::arg("options"),
           nb::sig("def __dlpack__(self, **options: typing.Any) -> typing.Any"),
           "Returns a DLPack capsule of the memory, as the array API standard describes it.")
      .def(
          "__dlpack_device__",
          [](const Buffer& /*buffer*/) { return nb::make_tuple(nb::device::cpu::value, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__repr__", &Describe);
}

}  // namespace tidepool::python
