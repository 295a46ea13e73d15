#include "device.h"

#include <atomic>
#include <memory>
#include <utility>

#include "common.h"

namespace spillway::python {

namespace {

thread_local void* current_stream = nullptr;

// After the interpreter's exit handlers ran, no callback may enter it; what is still allocated then
// goes with the process.
std::atomic<bool> interpreter_gone{false};

/// A framework's allocator, called from any thread. The functions are never released: the last
/// owner may be destroyed without the interpreter's lock.
struct PythonAllocator {
  py::object allocate;
  py::object free;
};

device::DeviceAllocator make_allocator(py::function allocate, py::function free) {
  auto* functions = new PythonAllocator{std::move(allocate), std::move(free)};
  device::DeviceAllocator allocator;
  allocator.allocate = [functions](Bytes bytes) {
    const py::gil_scoped_acquire locked;
    return to_pointer<void>(functions->allocate(bytes.value).cast<std::uintptr_t>());
  };
  allocator.free = [functions](void* data, Bytes /*bytes*/) {
    if (interpreter_gone) return;
    const py::gil_scoped_acquire locked;
    try {
      functions->free(reinterpret_cast<std::uintptr_t>(data));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("spillway: giving device memory back");
    }
  };
  return allocator;
}

std::shared_ptr<device::Device> open(const std::string& kind, int index, std::int64_t memory_limit,
                                     double link_bandwidth) {
  device::DeviceOptions options;
  using Choice = device::DeviceOptions::Choice;
  options.kind = kind == "cuda" ? Choice::kCuda : Choice::kEmulated;
  options.index = index;
  options.memory_limit = Bytes(memory_limit);
  options.link_bandwidth_bytes_per_second = link_bandwidth;
  auto device = device::open_device(options);
  if (device->kind() == device::Kind::kCuda) {
    device->set_compute_stream_provider([] { return current_stream; });
  }
  return device;
}

py::dict memory_of(const device::Device& device) {
  const auto stats = device.memory();
  py::dict result;
  result["limit"] = stats.limit.value;
  result["allocated"] = stats.allocated.value;
  result["peak"] = stats.peak.value;
  return result;
}

py::dict transfers_of(const device::Device& device) {
  const auto stats = device.transfers();
  py::dict result;
  result["to_device"] = stats.to_device.value;
  result["to_host"] = stats.to_host.value;
  result["num_copies"] = stats.num_copies;
  return result;
}

}  // namespace

StreamScope::StreamScope(std::uintptr_t stream)
    : before_(std::exchange(current_stream, to_pointer<void>(stream))) {}

StreamScope::~StreamScope() { current_stream = before_; }

void bind_device(py::module_& m) {
  py::class_<device::Device, std::shared_ptr<device::Device>>(m, "Device")
      .def_property_readonly(
          "is_cuda", [](const device::Device& d) { return d.kind() == device::Kind::kCuda; })
      .def_property_readonly("description", &device::Device::description)
      .def("memory", &memory_of)
      .def("transfers", &transfers_of)
      .def("reset_peak", &device::Device::reset_peak)
      .def("synchronize", &device::Device::synchronize, ReleaseGil())
      .def("set_allocator", [](device::Device& device, py::function allocate, py::function free) {
        device.set_allocator(make_allocator(std::move(allocate), std::move(free)));
      });
  m.def("open_device", &open, py::arg("kind"), py::arg("index") = 0, py::arg("memory_limit") = 0,
        py::arg("link_bandwidth") = 0.0);
  m.def("cuda_available", &device::cuda_available);
  py::module_::import("atexit").attr("register")(py::cpp_function([] { interpreter_gone = true; }));
}

}  // namespace spillway::python
