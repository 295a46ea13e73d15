#include "spillway/planner/time_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway::planner {
namespace {

/// Multiples of the forward's work in a step: 1 forward, 2 backward, and what is recomputed.
double passes(const config::ModelConfig& model) {
  return model.recompute_granularity == "full" ? 4.0 : 3.0;
}

/// 2 operations a parameter and token, and causal attention's 2 s q a token (half of 4 s q).
double forward_flops_per_token(const config::ModelConfig& model) {
  const auto counts = count_parameters(model);
  const double matrices =
      static_cast<double>(count_active_parameters(model) - counts.embedding - counts.norms) +
      (model.share_embeddings_and_output_weights ? static_cast<double>(counts.embedding) : 0.0);
  const double query = static_cast<double>(model.num_attention_heads) *
                       static_cast<double>(model.kv_channels.value_or(0));
  const double attention =
      2.0 * static_cast<double>(model.seq_length) * query * static_cast<double>(model.num_layers);
  return 2.0 * matrices + attention;
}

struct UpdateCost {
  double seconds = 0.0;
  double host_share = 0.0;
};

/// Elements share the link and the host's memory between two ways of updating; with a share x on
/// the host, time an element = max((S + (H - S) x) / B, max(out, in) / P). S, H: bytes of host
/// memory traffic; out, in: bytes over the link.
UpdateCost spillway_update(const config::ConfigContainer& config, double elements,
                           const Hardware& hardware) {
  const auto bytes = state_bytes(config, Framework::kSpillway);
  const auto state = static_cast<double>(bytes.host);
  const double gradient = config.ddp.grad_reduce_in_fp32 || !config.model.bf16 ? 4.0 : 2.0;
  const double parameter = config.model.bf16 ? 2.0 : 4.0;
  const double streamed = 2.0 * state;
  // Gradients are written and read, parameters written and read; the parameter's line is fetched
  // before it is written.
  const double on_host = 2.0 * state + 2.0 * gradient + 3.0 * parameter;
  const auto seconds = [&](double x) {
    const double memory = (streamed + (on_host - streamed) * x) / hardware.host_bytes_per_second;
    const double out = (state * (1 - x) + gradient * x) / hardware.link_both_bytes_per_second;
    const double in = (state * (1 - x) + parameter * x) / hardware.link_both_bytes_per_second;
    return elements * std::max({memory, out, in});
  };
  if (config.optimizer.offload_update == "host") return {seconds(1.0), 1.0};
  UpdateCost best{seconds(0.0), 0.0};
  if (config.optimizer.offload_update == "stream") return best;
  for (int percent = 1; percent <= 100; ++percent) {
    const double x = percent / 100.0;
    if (seconds(x) < best.seconds) best = {seconds(x), x};
  }
  return best;
}

void add_optimizer(const config::ConfigContainer& config, const MemoryEstimate& memory,
                   const Hardware& hardware, const TimeOptions& options, TimeEstimate& out) {
  const auto elements = static_cast<double>(memory.traffic.states);
  if (elements == 0.0) return;
  const bool overlap = config.optimizer.overlap_cpu_optimizer_d2h_h2d;
  if (options.framework == Framework::kMegatronBridge) {
    const double each = megatron_host_adam_seconds(options.megatron_threads, overlap);
    out.update = elements / 1e9 * each;
    out.optimizer_exposed = out.update;
    out.host_share = 1.0;
    out.reasons.push_back(fmt::format(
        "Megatron's hybrid optimizer: {:.3g}e9 elements x {:.2f} s per 1e9 with {} host {}",
        elements / 1e9, each, options.megatron_threads,
        options.megatron_threads == 1 ? "thread" : "threads"));
    return;
  }
  const auto cost = spillway_update(config, elements, hardware);
  out.update = cost.seconds;
  out.host_share = cost.host_share;
  if (overlap) out.window = out.backward + out.forward;
  out.optimizer_exposed = std::max(0.0, out.update - out.window);
  out.reasons.push_back(fmt::format(
      "update of {:.3g}e9 offloaded elements: {:.0f} ms, {:.0f} % of them on the host; {:.0f} ms "
      "can hide under the last backward and the next forward{}",
      elements / 1e9, out.update * 1e3, out.host_share * 100, out.window * 1e3,
      overlap ? "" : " only with optimizer.overlap_cpu_optimizer_d2h_h2d=True"));
}

void add_activations(const MemoryEstimate& memory, const Hardware& hardware, TimeEstimate& out) {
  const auto bytes = static_cast<double>(memory.traffic.activations_out.value);
  if (bytes == 0.0) return;
  const double seconds = bytes / hardware.link_bytes_per_second;
  const double exposed =
      std::max(0.0, seconds - out.forward) + std::max(0.0, seconds - out.backward);
  out.activation_exposed = exposed * static_cast<double>(memory.layout.micro_batches);
  out.reasons.push_back(
      fmt::format("{} of activations a micro-batch: {:.0f} ms each way, under {:.0f} ms of forward "
                  "and {:.0f} ms of backward",
                  to_string(memory.traffic.activations_out), seconds * 1e3, out.forward * 1e3,
                  out.backward * 1e3));
}

}  // namespace

double step_flops(const config::ConfigContainer& config, const Layout& layout) {
  const auto samples = static_cast<double>(config.train.micro_batch_size.value_or(1)) *
                       static_cast<double>(layout.micro_batches * layout.data);
  const double tokens = samples * static_cast<double>(config.model.seq_length);
  return passes(config.model) * tokens * forward_flops_per_token(config.model);
}

TimeEstimate estimate_time(const config::ConfigContainer& config, const MemoryEstimate& memory,
                           const Cluster& cluster, const Hardware& hardware,
                           const TimeOptions& options) {
  TimeEstimate out;
  const auto& layout = memory.layout;
  const auto batches = static_cast<double>(layout.micro_batches);
  // A pipeline stands still while it fills and drains: (PP - 1) / (v m) of the work.
  const double bubble =
      static_cast<double>(layout.pipeline - 1) / (batches * static_cast<double>(layout.chunks));
  if (options.measured_step) {
    out.compute = *options.measured_step;
    out.reasons.push_back(
        fmt::format("step without offloading: {:.0f} ms, as measured", out.compute * 1e3));
  } else {
    const double flops = step_flops(config, layout) / static_cast<double>(cluster.num_ranks);
    const double rate = config.model.num_moe_experts ? hardware.expert_flops_per_second
                                                     : hardware.matrix_flops_per_second;
    out.compute = flops / rate * (1.0 + bubble);
    out.reasons.push_back(fmt::format(
        "step without offloading: {:.3g} TFLOP a rank at {:.0f} TFLOP/s{}: {:.0f} ms", flops / 1e12,
        rate / 1e12,
        bubble > 0 ? fmt::format(", pipeline idle for {:.0f} % on top", bubble * 100) : "",
        out.compute * 1e3));
  }
  const double busy = out.compute / (1.0 + bubble) / batches;
  out.forward = busy / passes(config.model);
  out.backward = busy - out.forward;
  add_optimizer(config, memory, hardware, options, out);
  add_activations(memory, hardware, out);
  return out;
}

}  // namespace spillway::planner
