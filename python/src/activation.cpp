#include <memory>
#include <utility>

#include "common.h"
#include "device.h"
#include "dlpack.h"
#include "spillway/activation/activation_offloader.h"

namespace spillway::python {

namespace {

using activation::ActivationOffloader;
using activation::SavedStorage;

/// Python sees a ticket as an object that it only keeps.
struct TicketHolder {
  std::shared_ptr<activation::Ticket> ticket;

  explicit TicketHolder(std::shared_ptr<activation::Ticket> given) : ticket(std::move(given)) {}
  TicketHolder(TicketHolder&&) = default;
  TicketHolder& operator=(TicketHolder&&) = default;
  TicketHolder(const TicketHolder&) = delete;
  TicketHolder& operator=(const TicketHolder&) = delete;
  // Whoever holds the engine's locks may be waiting for the interpreter's.
  ~TicketHolder() {
    if (!ticket) return;
    const py::gil_scoped_release unlocked;
    ticket.reset();
  }
};

/// Keeps a Python object; may be let go by any thread.
std::shared_ptr<void> keep(py::object object) {
  return {object.release().ptr(), [](void* pointer) {
            if (Py_IsInitialized() == 0) return;
            const py::gil_scoped_acquire locked;
            Py_DECREF(static_cast<PyObject*>(pointer));
          }};
}

/// What a capsule owns: the storage, and the shape that its tensor points to.
struct Handed {
  SavedStorage storage;
  std::int64_t shape = 0;
  dlpack::DLManagedTensor tensor{};
};

// Called once: by the framework that took the memory over, or for a capsule that nobody took.
void give_back(dlpack::DLManagedTensor* tensor) {
  delete static_cast<Handed*>(tensor->manager_ctx);
}

void destroy_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, dlpack::kFresh) == 0) return;  // taken over
  auto* tensor =
      static_cast<dlpack::DLManagedTensor*>(PyCapsule_GetPointer(capsule, dlpack::kFresh));
  tensor->deleter(tensor);
}

/// The storage as a capsule of bytes, for torch.utils.dlpack.from_dlpack().
py::object hand_over(SavedStorage storage, int cuda_index) {
  auto handed = std::make_unique<Handed>();
  handed->shape = storage.bytes.value;
  handed->tensor.dl_tensor = {.data = storage.data,
                              .device = {cuda_index < 0 ? 1 : 2, cuda_index < 0 ? 0 : cuda_index},
                              .ndim = 1,
                              .dtype = {1, 8, 1},
                              .shape = &handed->shape,
                              .strides = nullptr,
                              .byte_offset = 0};
  handed->storage = std::move(storage);
  handed->tensor.manager_ctx = handed.get();
  handed->tensor.deleter = &give_back;
  PyObject* capsule = PyCapsule_New(&handed->tensor, dlpack::kFresh, &destroy_capsule);
  if (capsule == nullptr) throw py::error_already_set();
  static_cast<void>(handed.release());
  return py::reinterpret_steal<py::object>(capsule);
}

/// The activation engine with storages as addresses. `cuda_index`: -1 on the emulated device.
class Offloader {
 public:
  Offloader(std::shared_ptr<device::Device> device, int cuda_index, int num_layers,
            bool double_buffering, bool retain_pinned_buffers, std::int64_t min_tensor_bytes)
      : cuda_index_(cuda_index) {
    activation::ActivationOptions options;
    options.num_layers = num_layers;
    options.double_buffering = double_buffering;
    options.retain_pinned_buffers = retain_pinned_buffers;
    options.min_tensor_bytes = Bytes(min_tensor_bytes);
    engine_ = std::make_unique<ActivationOffloader>(std::move(device), options);
  }
  // Storages that it still holds go back under the lock, possibly in another thread.
  ~Offloader() {
    const py::gil_scoped_release unlocked;
    engine_.reset();
  }
  Offloader(const Offloader&) = delete;
  Offloader& operator=(const Offloader&) = delete;

  void begin_layer(int micro_batch, int layer, std::uintptr_t stream) {
    const StreamScope scope(stream);
    engine_->begin_layer(micro_batch, layer);
  }
  void end_layer(int micro_batch, int layer, std::uintptr_t stream) {
    const StreamScope scope(stream);
    engine_->end_layer(micro_batch, layer);
  }
  TicketHolder offload(std::uintptr_t data, std::int64_t bytes, py::object owner,
                       std::uint64_t version, std::uintptr_t stream) {
    SavedStorage storage;
    storage.data = to_pointer<std::byte>(data);
    storage.bytes = Bytes(bytes);
    storage.keep_alive = keep(std::move(owner));
    storage.version = version;
    const py::gil_scoped_release unlocked;
    const StreamScope scope(stream);
    return TicketHolder(engine_->offload(std::move(storage)));
  }
  void begin_backward(int micro_batch, int layer, std::uintptr_t stream) {
    const StreamScope scope(stream);
    engine_->begin_backward(micro_batch, layer);
  }
  void end_backward(int micro_batch, int layer, std::uintptr_t stream) {
    const StreamScope scope(stream);
    engine_->end_backward(micro_batch, layer);
  }
  py::object fetch(const TicketHolder& holder, std::uintptr_t stream) {
    SavedStorage storage;
    {
      const py::gil_scoped_release unlocked;
      const StreamScope scope(stream);
      storage = engine_->fetch(holder.ticket);
    }
    return hand_over(std::move(storage), cuda_index_);
  }
  void end_iteration(std::uintptr_t stream) {
    const StreamScope scope(stream);
    engine_->end_iteration();
  }

  [[nodiscard]] py::dict stats() const {
    const auto stats = [this] {
      const py::gil_scoped_release unlocked;
      return engine_->stats();
    }();
    py::dict result;
    result["moved_out_bytes"] = stats.moved_out.value;
    result["moved_in_bytes"] = stats.moved_in.value;
    result["device_resident_bytes"] = stats.device_resident.value;
    result["host_in_use_bytes"] = stats.host_in_use.value;
    result["host_capacity_bytes"] = stats.host_capacity.value;
    result["num_storages"] = stats.num_storages;
    result["num_deduplicated"] = stats.num_deduplicated;
    result["num_host_allocations"] = stats.num_host_allocations;
    result["num_open_tickets"] = stats.num_open_tickets;
    return result;
  }
  void reset_stats() { engine_->reset_stats(); }

 private:
  int cuda_index_;
  std::unique_ptr<ActivationOffloader> engine_;
};

}  // namespace

void bind_activation(py::module_& m) {
  py::class_<TicketHolder>(m, "Ticket");
  py::class_<Offloader>(m, "ActivationOffloader")
      .def(py::init<std::shared_ptr<device::Device>, int, int, bool, bool, std::int64_t>(),
           py::arg("device"), py::arg("cuda_index"), py::arg("num_layers"),
           py::arg("double_buffering"), py::arg("retain_pinned_buffers"),
           py::arg("min_tensor_bytes"))
      .def("begin_layer", &Offloader::begin_layer, ReleaseGil())
      .def("end_layer", &Offloader::end_layer, ReleaseGil())
      .def("offload", &Offloader::offload)
      .def("begin_backward", &Offloader::begin_backward, ReleaseGil())
      .def("end_backward", &Offloader::end_backward, ReleaseGil())
      .def("fetch", &Offloader::fetch)
      .def("end_iteration", &Offloader::end_iteration, ReleaseGil())
      .def("stats", &Offloader::stats)
      .def("reset_stats", &Offloader::reset_stats, ReleaseGil());
}

}  // namespace spillway::python
