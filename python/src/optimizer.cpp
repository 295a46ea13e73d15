#include "spillway/optimizer/hybrid_device_optimizer.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common.h"
#include "device.h"
#include "gradient_reader.h"
#include "spillway/core/error.h"

namespace spillway::python {

namespace {

using optimizer::StateKind;

/// Hyper-parameters of one group in one step, as PyTorch's groups hold them.
struct GroupSettings {
  double lr = 0.0;
  double weight_decay = 0.0;
  double beta1 = 0.0;
  double beta2 = 0.0;
  double eps = 0.0;
  double momentum = 0.0;
  bool decoupled = true;
};

StateKind parse_state(const std::string& name) {
  if (name == "master") return StateKind::kMaster;
  if (name == "exp_avg") return StateKind::kExpAvg;
  if (name == "exp_avg_sq") return StateKind::kExpAvgSq;
  if (name == "momentum") return StateKind::kMomentum;
  throw UsageError(
      fmt::format("'{}' is no state; there are master, exp_avg, exp_avg_sq and momentum.", name));
}

optimizer::OffloadUpdate parse_update(const std::string& name) {
  if (name == "auto") return optimizer::OffloadUpdate::kAuto;
  if (name == "host") return optimizer::OffloadUpdate::kHost;
  if (name == "stream") return optimizer::OffloadUpdate::kStream;
  throw ConfigError(fmt::format("offload_update is '{}'; use auto, host or stream.", name));
}

optimizer::MasterFormat parse_master(const std::string& name) {
  if (name == "fp32") return optimizer::MasterFormat::kFloat32;
  if (name == "remainder") return optimizer::MasterFormat::kRemainder;
  throw ConfigError(fmt::format("master_format is '{}'; use fp32 or remainder.", name));
}

/// Every option has a key here; pybind11 refuses a value of the wrong type.
optimizer::OptimizerOptions parse_options(const py::dict& given) {
  optimizer::OptimizerOptions options;
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string>();
    if (name == "algorithm") {
      options.algorithm = value.cast<std::string>() == "sgd" ? optimizer::Algorithm::kSgd
                                                             : optimizer::Algorithm::kAdam;
    } else if (name == "offload_fraction") {
      options.offload_fraction = value.cast<double>();
    } else if (name == "offload_update") {
      options.update = parse_update(value.cast<std::string>());
    } else if (name == "overlap") {
      options.overlap = value.cast<bool>();
    } else if (name == "master_format") {
      options.master = parse_master(value.cast<std::string>());
    } else if (name == "exp_avg_dtype") {
      options.exp_avg_dtype = parse_dtype(value.cast<std::string>());
    } else if (name == "exp_avg_sq_dtype") {
      options.exp_avg_sq_dtype = parse_dtype(value.cast<std::string>());
    } else if (name == "pin_cpu_grads") {
      options.pin_cpu_grads = value.cast<bool>();
    } else if (name == "pin_cpu_params") {
      options.pin_cpu_params = value.cast<bool>();
    } else if (name == "host_threads") {
      options.host_threads = value.cast<int>();
    } else if (name == "host_isa") {
      options.host_isa = value.cast<std::string>();
    } else if (name == "chunk_bytes") {
      options.chunk_bytes = Bytes(value.cast<std::int64_t>());
    } else if (name == "ring_slots") {
      options.ring_slots = value.cast<int>();
    } else {
      throw UsageError(fmt::format("'{}' is no option of the optimizer.", name));
    }
  }
  // PyTorch's own clip_grad_norm_ and GradScaler come before the step, and its optimizers let
  // infinities through.
  options.clip_grad = 0.0;
  options.skip_non_finite = false;
  return options;
}

using ParameterRow = std::tuple<std::string, std::uintptr_t, std::string, std::int64_t, int, int>;

std::vector<optimizer::Parameter> make_parameters(const std::vector<ParameterRow>& rows) {
  std::vector<optimizer::Parameter> parameters;
  parameters.reserve(rows.size());
  for (const auto& [name, data, dtype, num_elements, group, layer] : rows) {
    parameters.push_back(
        {name, to_pointer<void>(data), parse_dtype(dtype), num_elements, group, layer});
  }
  return parameters;
}

/// The engine, with tensors as addresses and PyTorch's way of giving hyper-parameters.
class Engine {
 public:
  Engine(std::shared_ptr<device::Device> device, const std::vector<ParameterRow>& rows,
         int num_groups, const py::dict& options, std::uintptr_t stream)
      : num_elements_(count_elements(rows)), parsed_(parse_options(options)) {
    auto parameters = make_parameters(rows);
    const py::gil_scoped_release unlocked;
    const StreamScope scope(stream);
    engine_ = std::make_unique<optimizer::HybridDeviceOptimizer>(
        std::move(device), std::move(parameters),
        std::vector<optimizer::ParameterGroup>(static_cast<std::size_t>(num_groups)), parsed_);
  }

  // Its threads may need the lock to give memory back to the framework.
  ~Engine() {
    const py::gil_scoped_release unlocked;
    engine_.reset();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void step(GradientReader& reader, const std::vector<GroupSettings>& settings, double grad_scale,
            std::uintptr_t stream) {
    {
      const py::gil_scoped_release unlocked;
      const StreamScope scope(stream);
      apply(settings);
      for (const Moved& moved : reader.moved()) {
        engine_->set_parameter_data(moved.slot, to_pointer<void>(moved.data));
      }
      engine_->step(reader.gradients(), {.lr = 1.0, .weight_decay = 1.0, .grad_scale = grad_scale});
    }
    // Without overlap the framework's stream is ordered after the update, so that memory freed now
    // cannot be written before the engine has read it.
    if (!parsed_.overlap) reader.release_all();
  }

  void wait_for_layer(int layer, std::uintptr_t stream) {
    const StreamScope scope(stream);
    engine_->wait_for_layer(layer);
  }
  void synchronize(std::uintptr_t stream) {
    const StreamScope scope(stream);
    engine_->synchronize();
  }
  void reload_model_params(std::uintptr_t stream) {
    const StreamScope scope(stream);
    engine_->reload_model_params();
  }
  void read_state(int parameter, const std::string& kind, std::uintptr_t out,
                  std::uintptr_t stream) {
    const StreamScope scope(stream);
    engine_->read_state(parameter, parse_state(kind), {to_pointer<float>(out), size_of(parameter)});
  }
  void write_state(int parameter, const std::string& kind, std::uintptr_t in,
                   std::uintptr_t stream) {
    const StreamScope scope(stream);
    engine_->write_state(parameter, parse_state(kind),
                         {to_pointer<const float>(in), size_of(parameter)});
  }
  std::int64_t num_steps(int parameter) { return engine_->num_steps(parameter); }
  void set_num_steps(int parameter, std::int64_t steps) {
    engine_->set_num_steps(parameter, steps);
  }

  [[nodiscard]] py::dict report() const {
    const auto placement = engine_->report();
    py::dict result;
    result["num_elements"] = placement.num_elements;
    result["num_offloaded_elements"] = placement.num_offloaded_elements;
    result["device_state_bytes"] = placement.device_state.value;
    result["host_state_bytes"] = placement.host_state.value;
    result["device_staging_bytes"] = placement.device_staging.value;
    result["host_staging_bytes"] = placement.host_staging.value;
    result["host_isa"] = placement.host_isa;
    result["host_threads"] = placement.host_threads;
    result["update"] = placement.update;
    return result;
  }

 private:
  static std::vector<std::size_t> count_elements(const std::vector<ParameterRow>& rows) {
    std::vector<std::size_t> counts;
    counts.reserve(rows.size());
    for (const auto& row : rows) counts.push_back(static_cast<std::size_t>(std::get<3>(row)));
    return counts;
  }

  [[nodiscard]] std::size_t size_of(int parameter) const {
    return num_elements_.at(static_cast<std::size_t>(parameter));
  }

  void apply(const std::vector<GroupSettings>& settings) {
    auto& groups = engine_->groups();
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const GroupSettings& from = settings[i];
      groups.at(i) = {.lr_mult = from.lr,
                      .wd_mult = from.weight_decay,
                      .beta1 = from.beta1,
                      .beta2 = from.beta2,
                      .eps = from.eps,
                      .momentum = from.momentum,
                      .decoupled_weight_decay = from.decoupled};
    }
  }

  std::vector<std::size_t> num_elements_;
  optimizer::OptimizerOptions parsed_;
  std::unique_ptr<optimizer::HybridDeviceOptimizer> engine_;
};

void bind_reader(py::module_& m) {
  py::class_<Watched>(m, "Watched")
      .def(py::init([](int slot, int layer, bool distributed) {
             return Watched{slot, layer, distributed};
           }),
           py::arg("slot"), py::arg("layer"), py::arg("distributed"));
  py::class_<GradientReader>(m, "GradientReader")
      .def(py::init<py::list, std::vector<Watched>, py::object, py::object, py::function>(),
           py::arg("tensors"), py::arg("watched"), py::arg("bfloat16"), py::arg("float32"),
           py::arg("make_dense"))
      .def("read", &GradientReader::read)
      .def("release", &GradientReader::release)
      .def("release_all", &GradientReader::release_all);
}

}  // namespace

void bind_optimizer(py::module_& m) {
  bind_reader(m);
  py::class_<GroupSettings>(m, "GroupSettings")
      .def(py::init([](double lr, double weight_decay, double beta1, double beta2, double eps,
                       double momentum, bool decoupled) {
             return GroupSettings{lr, weight_decay, beta1, beta2, eps, momentum, decoupled};
           }),
           py::arg("lr"), py::arg("weight_decay"), py::arg("beta1"), py::arg("beta2"),
           py::arg("eps"), py::arg("momentum"), py::arg("decoupled"));
  py::class_<Engine>(m, "Engine")
      .def(py::init<std::shared_ptr<device::Device>, const std::vector<ParameterRow>&, int,
                    const py::dict&, std::uintptr_t>(),
           py::arg("device"), py::arg("parameters"), py::arg("num_groups"), py::arg("options"),
           py::arg("stream"))
      .def("step", &Engine::step, py::arg("reader"), py::arg("groups"), py::arg("grad_scale"),
           py::arg("stream"))
      .def("wait_for_layer", &Engine::wait_for_layer, py::arg("layer"), py::arg("stream"),
           ReleaseGil())
      .def("synchronize", &Engine::synchronize, py::arg("stream"), ReleaseGil())
      .def("reload_model_params", &Engine::reload_model_params, py::arg("stream"), ReleaseGil())
      .def("read_state", &Engine::read_state, py::arg("parameter"), py::arg("kind"), py::arg("out"),
           py::arg("stream"), ReleaseGil())
      .def("write_state", &Engine::write_state, py::arg("parameter"), py::arg("kind"),
           py::arg("source"), py::arg("stream"), ReleaseGil())
      .def("num_steps", &Engine::num_steps, ReleaseGil())
      .def("set_num_steps", &Engine::set_num_steps, ReleaseGil())
      .def("report", &Engine::report);
}

}  // namespace spillway::python
