#include "spillway/torch/saved_tensor_offload.h"

#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "spillway/torch/compat.h"

namespace spillway::torch {

struct SavedTensorOffload::Shared {
  std::shared_ptr<activation::ActivationOffloader> offloader;
  c10::DeviceType device_type;
  std::unordered_set<const c10::StorageImpl*> constants;
};

namespace {

using ::torch::autograd::Engine;
using ::torch::autograd::Node;
using ::torch::autograd::variable_list;
using Shared = SavedTensorOffload::Shared;

/// The offload whose layer is open in the calling thread's forward.
thread_local std::shared_ptr<Shared> active;

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

bool is_parameter(const at::Tensor& tensor) {
  at::TensorBase base = tensor;
  if (tensor.is_view()) base = tensor._base();
  return base.is_leaf() && base.requires_grad();
}

bool is_offered(const at::Tensor& tensor, const Shared& shared) {
  if (!tensor.has_storage() || tensor.numel() == 0) return false;
  if (tensor.device().type() != shared.device_type) return false;
  if (!at::isFloatingType(tensor.scalar_type()) || is_parameter(tensor)) return false;
  const auto bytes = Bytes(static_cast<std::int64_t>(tensor.storage().nbytes()));
  if (bytes < shared.offloader->options().min_tensor_bytes) return false;
  return !shared.constants.contains(storage_of(tensor));
}

/// Tells whether a tensor, or a view of the same memory, was changed in place.
class Version {
 public:
  explicit Version(const at::Tensor& tensor)
      : counter_(::torch::autograd::impl::version_counter(tensor)),
        saved_(counter_.current_version()) {}

  [[nodiscard]] std::uint64_t saved() const { return saved_; }
  [[nodiscard]] bool unchanged() const { return counter_.current_version() == saved_; }

 private:
  c10::VariableVersion counter_;
  std::uint32_t saved_;
};

activation::SavedStorage saved_storage(const at::Tensor& tensor, const Version& version) {
  auto held = std::make_shared<c10::Storage>(tensor.storage());
  auto revive = [weak = held->getWeakStorageImpl(), version]() -> std::shared_ptr<void> {
    auto alive = weak.lock();
    if (!alive || !version.unchanged()) return nullptr;
    return std::make_shared<c10::Storage>(std::move(alive));
  };
  return {.data = static_cast<std::byte*>(compat::memory_of(*held)),
          .bytes = Bytes(static_cast<std::int64_t>(held->nbytes())),
          .keep_alive = held,
          .version = version.saved(),
          .revive = std::move(revive)};
}

/// What autograd keeps instead of a tensor: the tensor itself, or a ticket and a view's geometry.
class SavedTensor final : public ::torch::autograd::SavedVariableHooks {
 public:
  explicit SavedTensor(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    version_.emplace(tensor);
    if (!shared_->offloader->offloading() || !is_offered(tensor, *shared_)) {
      kept_ = tensor.detach();
      return;
    }
    ticket_ = shared_->offloader->offload(saved_storage(tensor, *version_));
    options_ = tensor.options();
    sizes_ = tensor.sizes().vec();
    strides_ = tensor.strides().vec();
    offset_ = tensor.storage_offset();
  }

  at::Tensor call_unpack_hook() override {
    TORCH_CHECK(version_->unchanged(),
                "a tensor that backward needs was modified by an in-place operation after it was "
                "saved");
    return ticket_ ? reloaded() : kept_;
  }

 private:
  [[nodiscard]] at::Tensor reloaded() const {
    auto storage = std::make_unique<activation::SavedStorage>(shared_->offloader->fetch(ticket_));
    std::byte* data = storage->data;
    const std::int64_t size = storage->bytes.value;
    const at::Tensor bytes =
        at::for_blob(data, {size})
            .context(storage.release(),
                     [](void* held) { delete static_cast<activation::SavedStorage*>(held); })
            .options(options_.dtype(at::kByte))
            .target_device(options_.device())
            .make_tensor();
    return at::empty({0}, options_).set_(bytes.storage(), offset_, sizes_, strides_);
  }

  std::shared_ptr<Shared> shared_;
  std::optional<Version> version_;
  at::Tensor kept_;
  std::shared_ptr<activation::Ticket> ticket_;
  at::TensorOptions options_;
  std::vector<std::int64_t> sizes_, strides_;
  std::int64_t offset_ = 0;
};

/// libtorch asks its engine for the hooks of each tensor that it saves.
class HookEngine final : public Engine {
 public:
  std::unique_ptr<::torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks()
      override {
    return active ? std::make_unique<SavedTensor>(active) : nullptr;
  }

  static Engine& instance() {
    // Never destroyed: its device threads may outlive every static object.
    static auto* engine = new HookEngine();
    return *engine;
  }
};

void install_hook_engine() {
  static const bool installed = [] {
    ::torch::autograd::set_default_engine_stub(&HookEngine::instance);
    return true;
  }();
  (void)installed;
}

/// Passes gradients on unchanged and tells somebody.
class BoundaryNode final : public Node {
 public:
  explicit BoundaryNode(std::function<void()> passed) : passed_(std::move(passed)) {}
  std::string name() const override { return "LayerBoundary"; }
  variable_list apply(variable_list&& grads) override {
    passed_();
    return std::move(grads);
  }

 private:
  std::function<void()> passed_;
};

}  // namespace

SavedTensorOffload::SavedTensorOffload(std::shared_ptr<activation::ActivationOffloader> offloader,
                                       const std::string& tensor_device)
    : shared_(std::make_shared<Shared>()) {
  shared_->offloader = std::move(offloader);
  shared_->device_type = c10::Device(tensor_device).type();
  install_hook_engine();
}

SavedTensorOffload::~SavedTensorOffload() {
  if (active == shared_) active = nullptr;
}

void SavedTensorOffload::keep_on_device(const at::Tensor& constant) {
  shared_->constants.insert(storage_of(constant));
}

activation::ActivationOffloader& SavedTensorOffload::offloader() const {
  return *shared_->offloader;
}

LayerScope::LayerScope(SavedTensorOffload* offload, int micro_batch, int layer)
    : shared_(offload != nullptr && at::GradMode::is_enabled() ? offload->shared_ : nullptr),
      micro_batch_(micro_batch),
      layer_(layer) {}

LayerScope::~LayerScope() {
  if (shared_ && active == shared_) active = nullptr;
}

at::Tensor LayerScope::enter(const at::Tensor& hidden) {
  if (!shared_) return hidden;
  input_has_gradient_ = hidden.requires_grad();
  const at::Tensor input = on_backward(hidden, [shared = shared_, mb = micro_batch_, l = layer_] {
    shared->offloader->end_backward(mb, l);
  });
  shared_->offloader->begin_layer(micro_batch_, layer_);
  if (shared_->offloader->offloading()) active = shared_;
  return input;
}

at::Tensor LayerScope::leave(const at::Tensor& hidden) {
  if (!shared_) return hidden;
  active = nullptr;
  shared_->offloader->end_layer(micro_batch_, layer_);
  return on_backward(hidden, [shared = shared_, mb = micro_batch_, l = layer_,
                              ends_by_itself = input_has_gradient_] {
    shared->offloader->begin_backward(mb, l);
    // No gradient leaves the layer, so none can end it: the end of backward does.
    if (!ends_by_itself)
      Engine::get_default_engine().queue_callback(
          [shared, mb, l] { shared->offloader->end_backward(mb, l); });
  });
}

at::Tensor on_backward(const at::Tensor& x, std::function<void()> passed) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return x;
  const auto node = std::make_shared<BoundaryNode>(std::move(passed));
  node->set_next_edges(::torch::autograd::collect_next_edges(x));
  at::Tensor result = x.detach();
  ::torch::autograd::create_gradient_edge(result, node);
  return result;
}

}  // namespace spillway::torch
