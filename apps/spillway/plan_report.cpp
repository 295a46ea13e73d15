#include "plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "spillway/report/table.h"

namespace spillway::cli {
namespace {

using planner::Candidate;
using planner::Category;
using planner::Plan;
using planner::PlanRequest;

constexpr Category kCategories[] = {
    Category::kWeights,       Category::kGradients, Category::kMasters, Category::kMoments,
    Category::kActivations,   Category::kExperts,   Category::kLoss,    Category::kWorkspace,
    Category::kCommunication, Category::kStaging};

std::string gigabytes(Bytes bytes) { return fmt::format("{:.2f}", bytes.gigabytes()); }

/// Candidates that have an estimate, with their place in the plan.
std::vector<std::pair<std::size_t, const Candidate*>> estimated(const Plan& plan) {
  std::vector<std::pair<std::size_t, const Candidate*>> out;
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    if (!plan.candidates[i].memory.stages.empty()) out.emplace_back(i, &plan.candidates[i]);
  }
  return out;
}

std::string heading(const Candidate& candidate) {
  const auto& config = candidate.config;
  const auto layers = [&] { return config.model.cpu_offloading_num_layers; };
  const auto fraction = [&] { return config.optimizer.optimizer_offload_fraction; };
  switch (candidate.mechanism) {
    case planner::Mechanism::kOptimizer:
      return fmt::format("optimizer {}", fraction());
    case planner::Mechanism::kActivations:
      return fmt::format("{} layers", layers());
    case planner::Mechanism::kBoth:
      return fmt::format("optimizer {}, {} layers", fraction(), layers());
    case planner::Mechanism::kWeights:
      return fmt::format("{} layers with weights", layers());
    default:
      return std::string(name_of(candidate.mechanism));
  }
}

using Rows = std::vector<std::vector<std::string>>;

/// The table without its heading: a name and a cell a candidate.
Rows memory_rows(const PlanRequest& request, const Plan& plan) {
  const auto shown = estimated(plan);
  Rows rows;
  const auto add = [&](std::string name, const std::function<std::string(const Candidate&)>& cell) {
    std::vector<std::string> row = {std::move(name)};
    for (const auto& [index, candidate] : shown) row.push_back(cell(*candidate));
    rows.push_back(std::move(row));
  };
  for (const auto category : kCategories) {
    const auto bytes = [&](const Candidate& candidate) {
      const auto& stage = candidate.memory.fullest_stage();
      return stage.total(category).at(stage.peak_phase());
    };
    const bool anywhere = std::ranges::any_of(
        shown, [&](const auto& entry) { return bytes(*entry.second) != Bytes(); });
    if (!anywhere) continue;
    add(std::string(name_of(category)), [&](const Candidate& c) { return gigabytes(bytes(c)); });
  }
  add("allocated at the peak",
      [](const Candidate& c) { return gigabytes(c.memory.device_peak()); });
  add("between iterations",
      [](const Candidate& c) { return gigabytes(c.memory.device_resident()); });
  add(fmt::format("may be allocated of {}", to_string(plan.budget.capacity)),
      [&](const Candidate&) { return gigabytes(plan.budget.allocatable); });
  add("host memory a rank", [](const Candidate& c) { return gigabytes(c.memory.host_per_rank()); });
  add(fmt::format("host memory a node of {}", to_string(plan.host_capacity)),
      [](const Candidate& c) { return gigabytes(c.memory.host_per_node()); });
  add("step, ms", [](const Candidate& c) { return fmt::format("{:.0f}", c.time.step() * 1e3); });
  add("slowdown", [](const Candidate& c) { return fmt::format("{:.2f}x", c.time.slowdown()); });
  add("fits", [](const Candidate& c) { return std::string(c.fits() ? "yes" : "no"); });
  static_cast<void>(request);
  return rows;
}

std::vector<std::string> headings(const Plan& plan) {
  std::vector<std::string> out = {"GB on the fullest rank"};
  for (const auto& [index, candidate] : estimated(plan)) {
    out.push_back(heading(*candidate) + (plan.recommended == index ? " *" : ""));
  }
  return out;
}

std::string title_text(const PlanRequest& request, const Plan& plan) {
  const auto& memory = plan.candidates.front().memory;
  const auto& layout = memory.layout;
  std::string experts;
  if (request.config.model.num_moe_experts) {
    experts = fmt::format(", EP {} x ETP {}", layout.expert, layout.expert_tensor);
  }
  return fmt::format(
      "{:.2f}e9 parameters ({:.2f}e9 a token) on {} x {} ({}): TP {}, PP {}, CP {}{}, "
      "data-parallel "
      "{}; {} micro-batch{} of {} tokens",
      static_cast<double>(memory.model.total()) / 1e9,
      static_cast<double>(planner::count_active_parameters(request.config.model)) / 1e9,
      request.cluster.num_ranks, request.hardware.name, to_string(plan.budget.capacity),
      layout.tensor, layout.pipeline, layout.context, experts, layout.data, layout.micro_batches,
      layout.micro_batches == 1 ? "" : "es", layout.tokens);
}

std::string joined(const std::vector<std::string>& overrides) {
  return fmt::format("{}", fmt::join(overrides, " "));
}

std::string overrides_text(const Plan& plan) {
  std::string out;
  if (!plan.recommended) {
    for (const auto& way : plan.ways_out) {
      out += fmt::format("\n{}:\n  {}\n", way.what, joined(way.overrides));
    }
    return out;
  }
  if (plan.spillway.empty()) return "\nNothing to change.\n";
  out += fmt::format("\nSpillway:\n  {}\n", joined(plan.spillway));
  if (!plan.bridge.empty()) out += fmt::format("Megatron Bridge:\n  {}\n", joined(plan.bridge));
  if (!plan.bridge_note.empty()) out += fmt::format("  {}\n", plan.bridge_note);
  return out;
}

/// The time model's sentences about the recommendation, or about the run without offloading.
const std::vector<std::string>& time_reasons(const Plan& plan) {
  return plan.candidates[plan.recommended.value_or(0)].time.reasons;
}

}  // namespace

std::string plan_text(const PlanRequest& request, const Plan& plan) {
  std::vector<report::Table::Column> columns;
  for (const auto& text : headings(plan)) {
    columns.push_back({text, columns.empty() ? report::Align::kLeft : report::Align::kRight});
  }
  report::Table table(columns);
  for (auto& row : memory_rows(request, plan)) table.add_row(std::move(row));
  std::string out = title_text(request, plan) + "\n\n" + table.render() + "\n";
  if (plan.recommended) out += "* recommended\n";
  out += '\n' + plan.paragraph + "\n\n";
  for (const auto& reason : time_reasons(plan)) out += fmt::format("- {}\n", reason);
  for (const auto& assumption : plan.candidates.front().memory.assumptions) {
    out += fmt::format("- {}\n", assumption);
  }
  if (!request.hardware.measured) {
    out += fmt::format("- rates from data sheets ({}); `spillway probe` measures them\n",
                       request.hardware.source);
  }
  return out + overrides_text(plan);
}

report::HtmlReport plan_page(const PlanRequest& request, const Plan& plan) {
  report::HtmlReport page("Spillway plan");
  page.add_paragraph(title_text(request, plan));
  page.add_paragraph(plan.paragraph);
  for (const auto& command : {plan.spillway, plan.bridge}) {
    if (!command.empty()) page.add_command(joined(command));
  }
  report::Plot plot;
  plot.title = "Device memory at the peak";
  plot.kind = report::Plot::Kind::kStackedBar;
  plot.x_label = "offloading";
  plot.y_label = "GB on the fullest rank";
  plot.caption = fmt::format("{} may be allocated of {}.", to_string(plan.budget.allocatable),
                             to_string(plan.budget.capacity));
  for (const auto category : kCategories) {
    report::Series series{std::string(name_of(category)), {}, {}};
    for (const auto& [index, candidate] : estimated(plan)) {
      const auto& stage = candidate->memory.fullest_stage();
      series.y.push_back(stage.total(category).at(stage.peak_phase()).gigabytes());
    }
    plot.series.push_back(std::move(series));
  }
  for (const auto& [index, candidate] : estimated(plan)) {
    plot.categories.push_back(heading(*candidate));
  }
  page.add_plot(plot);
  report::HtmlTable table{"Where memory goes", {headings(plan)}};
  for (auto& row : memory_rows(request, plan)) table.rows.push_back(std::move(row));
  page.add_table(table);
  report::HtmlTable terms{"Terms of the fullest rank without offloading",
                          {{"what", "forward, GB", "backward, GB", "step, GB", "because"}}};
  for (const auto& term : plan.candidates.front().memory.fullest_stage().terms) {
    terms.rows.push_back({std::string(name_of(term.category)), gigabytes(term.bytes.forward),
                          gigabytes(term.bytes.backward), gigabytes(term.bytes.step), term.reason});
  }
  page.add_table(terms);
  return page;
}

}  // namespace spillway::cli
