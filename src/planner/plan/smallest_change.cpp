#include "spillway/planner/smallest_change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace spillway::planner {
namespace {

constexpr std::array<std::string_view, 6> kOutOfMemory = {
    "device-out-of-memory",         "device-out-of-memory-nccl",
    "device-out-of-memory-library", "partial-fraction-too-small",
    "full-fraction-not-enough",     "activation-offload-model-too-large"};

bool ran_out(const Diagnosis& diagnosis) {
  return std::ranges::any_of(diagnosis.causes, [](const Cause& cause) {
    return std::ranges::find(kOutOfMemory, cause.id) != kOutOfMemory.end();
  });
}

/// What the run would have needed at least, as far as the message says.
std::optional<Bytes> needed(const Diagnosis& diagnosis) {
  const auto& figures = diagnosis.out_of_memory;
  if (!figures || !figures->allocated || !figures->wanted) return std::nullopt;
  return *figures->allocated + *figures->wanted;
}

}  // namespace

std::optional<SmallestChange> smallest_change(const Diagnosis& diagnosis, PlanRequest request) {
  if (!ran_out(diagnosis)) return std::nullopt;
  if (diagnosis.out_of_memory && diagnosis.out_of_memory->total && !request.device_memory) {
    request.device_memory = diagnosis.out_of_memory->total;
  }
  SmallestChange out;
  const auto predicted = estimate(request.config, request.cluster).device_peak();
  if (const auto least = needed(diagnosis); least && *least > predicted) {
    const double excess =
        static_cast<double>(least->value) / static_cast<double>(predicted.value) - 1.0;
    request.margin += excess;
    out.text = fmt::format(
        "The run had allocated {} and wanted {} more, {:.0f} % above the {} predicted; the plan "
        "below keeps that much more free. ",
        to_string(*diagnosis.out_of_memory->allocated), to_string(*diagnosis.out_of_memory->wanted),
        excess * 100, to_string(predicted));
  }
  const Plan found = plan(request);
  out.fits = found.recommended.has_value();
  out.spillway = found.spillway;
  out.bridge = found.bridge;
  out.text += found.paragraph;
  if (out.fits && out.spillway.empty()) {
    out.text +=
        " By that it should have fitted as it is: look for another process on the device and for "
        "fragmentation before changing anything.";
  }
  return out;
}

}  // namespace spillway::planner
