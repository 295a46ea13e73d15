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

/// Where a tensor lies in its storage.
struct Geometry {
  explicit Geometry(const at::Tensor& tensor)
      : options(tensor.options()),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        offset(tensor.storage_offset()) {}

  [[nodiscard]] at::Tensor in(const c10::Storage& storage) const {
    return at::empty({0}, options).set_(storage, offset, sizes, strides);
  }

  at::TensorOptions options;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset;
};

/// A tensor that is saved while the offload (or none) has a layer open: itself, or a ticket.
class Saved {
 public:
  Saved(const at::Tensor& tensor, std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)), version_(tensor) {
    if (!shared_ || !shared_->offloader->offloading() || !is_offered(tensor, *shared_)) {
      kept_ = tensor.detach();
      return;
    }
    ticket_ = shared_->offloader->offload(saved_storage(tensor, version_));
    geometry_.emplace(tensor);
  }

  [[nodiscard]] at::Tensor tensor() const {
    TORCH_CHECK(version_.unchanged(),
                "a tensor that backward needs was modified by an in-place operation after it was "
                "saved");
    return ticket_ ? geometry_->in(reloaded()) : kept_;
  }

 private:
  [[nodiscard]] c10::Storage reloaded() const {
    auto storage = std::make_unique<activation::SavedStorage>(shared_->offloader->fetch(ticket_));
    std::byte* data = storage->data;
    const std::int64_t size = storage->bytes.value;
    return at::for_blob(data, {size})
        .context(storage.release(),
                 [](void* held) { delete static_cast<activation::SavedStorage*>(held); })
        .options(geometry_->options.dtype(at::kByte))
        .target_device(geometry_->options.device())
        .make_tensor()
        .storage();
  }

  std::shared_ptr<Shared> shared_;
  std::optional<Geometry> geometry_;
  Version version_;
  at::Tensor kept_;
  std::shared_ptr<activation::Ticket> ticket_;
};

using Rebuild = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// How to compute a tensor again; shared by all that was saved of it.
class Recipe {
 public:
  Recipe(const at::Tensor& result, Rebuild rebuild, const std::vector<at::Tensor>& inputs)
      : storage_(result.storage().getWeakStorageImpl()),
        address_(storage_of(result)),
        rebuild_(std::move(rebuild)) {
    for (const at::Tensor& input : inputs) inputs_.emplace_back(input, active);
  }

  [[nodiscard]] bool expired() const { return storage_.expired(); }
  [[nodiscard]] bool describes(const at::Tensor& tensor) const {
    return tensor.has_storage() && storage_of(tensor) == address_ && !expired();
  }

  void add_user() { ++num_users_; }

  /// The whole result, computed for the first of its users and dropped after the last.
  [[nodiscard]] at::Tensor result() {
    if (!result_.defined()) {
      const at::NoGradGuard no_grad;
      std::vector<at::Tensor> inputs;
      for (const Saved& input : inputs_) inputs.push_back(input.tensor());
      result_ = rebuild_(inputs);
    }
    at::Tensor result = result_;
    if (++num_served_ % num_users_ == 0) result_.reset();
    return result;
  }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  const c10::StorageImpl* address_;
  Rebuild rebuild_;
  std::vector<Saved> inputs_;
  at::Tensor result_;
  int num_users_ = 0;
  int num_served_ = 0;
};

/// Of the tensors that the calling thread's forward has at hand now.
thread_local std::vector<std::shared_ptr<Recipe>> recipes;

std::shared_ptr<Recipe> recipe_for(const at::Tensor& tensor) {
  for (const auto& recipe : recipes)
    if (recipe->describes(tensor)) return recipe;
  return nullptr;
}

/// What autograd keeps instead of a tensor.
class SavedTensor final : public ::torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override {
    recipe_ = recipe_for(tensor);
    if (!recipe_) {
      saved_.emplace(tensor, active);
      return;
    }
    recipe_->add_user();
    geometry_.emplace(tensor);
    version_.emplace(tensor);
  }

  at::Tensor call_unpack_hook() override {
    if (!recipe_) return saved_->tensor();
    TORCH_CHECK(version_->unchanged(),
                "a tensor that backward computes anew was modified by an in-place operation");
    return geometry_->in(recipe_->result().storage());
  }

 private:
  std::optional<Saved> saved_;
  std::shared_ptr<Recipe> recipe_;
  std::optional<Geometry> geometry_;
  std::optional<Version> version_;
};

/// libtorch asks its engine for the hooks of each tensor that it saves.
class HookEngine final : public Engine {
 public:
  std::unique_ptr<::torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks()
      override {
    std::erase_if(recipes, [](const auto& recipe) { return recipe->expired(); });
    return active || !recipes.empty() ? std::make_unique<SavedTensor>() : nullptr;
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

at::Tensor saved_as_recipe(const at::Tensor& result, Rebuild rebuild,
                           const std::vector<at::Tensor>& inputs) {
  TORCH_CHECK(result.is_contiguous() && result.storage_offset() == 0,
              "only a contiguous result can be saved as its recipe");
  if (!at::GradMode::is_enabled()) return result;
  install_hook_engine();
  std::erase_if(recipes, [](const auto& recipe) { return recipe->expired(); });
  recipes.push_back(std::make_shared<Recipe>(result, std::move(rebuild), inputs));
  return result;
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
