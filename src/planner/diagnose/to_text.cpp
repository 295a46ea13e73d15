#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "spillway/planner/diagnose.h"

namespace spillway::planner {
namespace {

using nlohmann::json;

std::string wrapped(const std::string& text, std::size_t width, const std::string& indent) {
  std::string out = indent;
  std::size_t column = indent.size();
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const std::size_t length = end - start;
    if (column > indent.size() && column + 1 + length > width) {
      out += '\n' + indent;
      column = indent.size();
    }
    if (column > indent.size()) {
      out += ' ';
      ++column;
    }
    out.append(text, start, length);
    column += length;
    start = end + 1;
  }
  return out + '\n';
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.empty()) return {};
  std::string out = ranks.size() == 1 ? ", rank " : ", ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    if (i > 0) out += ", ";
    out += end == i ? std::to_string(ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end]);
    i = end + 1;
  }
  return out;
}

void overrides(std::string& out, const char* whose, const std::vector<std::string>& list) {
  if (!list.empty()) out += fmt::format("     {:<9} {}\n", whose, fmt::join(list, " "));
}

std::string cause_text(int number, const Cause& cause) {
  std::string out = fmt::format("{}. {}  [{}]\n", number, cause.title, cause.id);
  for (const auto& evidence : cause.evidence) {
    out += fmt::format("     line {}: {}\n", evidence.line, evidence.text);
  }
  const auto shown = static_cast<std::int64_t>(cause.evidence.size());
  if (cause.count > shown || !cause.ranks.empty()) {
    out += fmt::format("     seen {} times{}\n", cause.count, ranks_text(cause.ranks));
  }
  out += "   Cause\n" + wrapped(cause.cause, 100, "     ");
  out += "   To confirm\n";
  for (const auto& step : cause.confirm) out += fmt::format("     - {}\n", step);
  out += "   Fix\n" + wrapped(cause.fix, 100, "     ");
  if (cause.spillway == cause.bridge) {
    overrides(out, "overrides", cause.spillway);
  } else {
    overrides(out, "spillway", cause.spillway);
    overrides(out, "bridge", cause.bridge);
  }
  for (const auto& command : cause.shell) overrides(out, "shell", {command});
  return out;
}

std::string figures_text(const OutOfMemoryFigures& figures) {
  std::string out = "The message's figures:";
  const auto add = [&](const char* name, const std::optional<Bytes>& amount) {
    if (amount) out += fmt::format(" {} {};", name, to_string(*amount));
  };
  add("wanted", figures.wanted);
  add("free", figures.free);
  add("device", figures.total);
  add("allocated", figures.allocated);
  add("reserved but unused", figures.unallocated);
  add("this process", figures.in_process);
  out.back() = '.';
  return out + '\n';
}

std::string nothing_text(const Diagnosis& diagnosis) {
  std::string out = fmt::format("Nothing recognised in {} lines ({}).\n", diagnosis.num_lines,
                                to_string(diagnosis.num_bytes));
  if (diagnosis.num_bytes == Bytes()) {
    out += "The log is empty.\n";
  } else if (diagnosis.looks_binary) {
    out +=
        "It does not look like text; a compressed log must be unpacked first (zcat LOG | "
        "spillway diagnose -).\n";
  } else {
    out += fmt::format(
        "None of the {} known causes left a trace. Give the complete log of all ranks, the first "
        "error included; a rank that was killed says nothing in its own log, so add the "
        "launcher's or scheduler's.\n",
        num_known_causes());
  }
  return out;
}

json optional_bytes(const std::optional<Bytes>& bytes) {
  return bytes ? json(bytes->value) : json(nullptr);
}

json to_json(const Cause& cause) {
  json evidence = json::array();
  for (const auto& e : cause.evidence) evidence.push_back({{"line", e.line}, {"text", e.text}});
  return {{"id", cause.id},
          {"title", cause.title},
          {"cause", cause.cause},
          {"confirm", cause.confirm},
          {"fix", cause.fix},
          {"overrides", {{"spillway", cause.spillway}, {"megatron_bridge", cause.bridge}}},
          {"shell", cause.shell},
          {"follows", cause.follows},
          {"count", cause.count},
          {"ranks", cause.ranks},
          {"evidence", evidence}};
}

}  // namespace

std::string to_text(const Diagnosis& diagnosis) {
  if (diagnosis.causes.empty()) return nothing_text(diagnosis);
  std::string out = fmt::format("Read {} lines", diagnosis.num_lines);
  if (!diagnosis.frameworks.empty()) {
    out += fmt::format(" of {}", fmt::join(diagnosis.frameworks, ", "));
  }
  if (diagnosis.iteration_ms) {
    out += fmt::format(", {} iterations of {:.0f} ms", diagnosis.num_iterations,
                       *diagnosis.iteration_ms);
  }
  out += ".\n";
  if (diagnosis.out_of_memory) out += figures_text(*diagnosis.out_of_memory);
  int number = 0;
  bool following = false;
  for (const auto& cause : diagnosis.causes) {
    if (cause.follows && number > 0 && !following) {
      out += "\nThese usually follow from the above:\n";
      following = true;
    }
    out += '\n' + cause_text(++number, cause);
  }
  return out;
}

std::string to_json(const Diagnosis& diagnosis) {
  json causes = json::array();
  for (const auto& cause : diagnosis.causes) causes.push_back(to_json(cause));
  json out = {
      {"recognised", !diagnosis.causes.empty()},    {"causes", causes},
      {"frameworks", diagnosis.frameworks},         {"settings", diagnosis.settings},
      {"num_iterations", diagnosis.num_iterations}, {"num_lines", diagnosis.num_lines},
      {"num_bytes", diagnosis.num_bytes.value},     {"looks_binary", diagnosis.looks_binary}};
  if (diagnosis.iteration_ms) out["iteration_ms"] = *diagnosis.iteration_ms;
  if (const auto& figures = diagnosis.out_of_memory) {
    out["out_of_memory"] = {{"wanted_bytes", optional_bytes(figures->wanted)},
                            {"total_bytes", optional_bytes(figures->total)},
                            {"free_bytes", optional_bytes(figures->free)},
                            {"allocated_bytes", optional_bytes(figures->allocated)},
                            {"unallocated_bytes", optional_bytes(figures->unallocated)},
                            {"process_bytes", optional_bytes(figures->in_process)}};
  }
  return out.dump(2);
}

}  // namespace spillway::planner
