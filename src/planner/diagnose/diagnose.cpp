#include "spillway/planner/diagnose.h"

#include <algorithm>
#include <array>
#include <set>

#include "planner/diagnose/catalogue.h"
#include "planner/diagnose/figures.h"
#include "planner/diagnose/line_reader.h"
#include "planner/diagnose/literal_set.h"
#include "planner/diagnose/phrase.h"

namespace spillway::planner {
namespace {

constexpr std::size_t kEvidenceWidth = 180;
constexpr std::size_t kMaxEvidence = 3;

struct FrameworkMark {
  std::string_view text;
  std::string_view framework;
};
// Normalised text that only one framework's logs and tracebacks have.
constexpr std::array kFrameworkMarks = {
    FrameworkMark{"spillway", "Spillway"},
    FrameworkMark{"megatron/bridge", "Megatron Bridge"},
    FrameworkMark{"megatron.bridge", "Megatron Bridge"},
    FrameworkMark{"megatron/core", "Megatron-LM"},
    FrameworkMark{"megatron/training", "Megatron-LM"},
    FrameworkMark{"pretrain_gpt.py", "Megatron-LM"},
    FrameworkMark{"elapsed time per iteration (ms)", "Megatron-LM"},
    FrameworkMark{"deepspeed", "DeepSpeed"},
    FrameworkMark{"torch/distributed", "PyTorch"},
    FrameworkMark{"torch.cuda", "PyTorch"},
    FrameworkMark{"by pytorch", "PyTorch"},
    FrameworkMark{"torch/nn/modules", "PyTorch"},
    FrameworkMark{"torch.distributed", "PyTorch"},
};

/// What a watched literal leads to.
struct Watch {
  enum class Kind : unsigned char { kPhrase, kSetting, kSeries, kFramework, kEvent };
  Kind kind;
  int row = 0;     ///< kPhrase: row; kFramework: mark
  int phrase = 0;  ///< kPhrase: index into phrases
};

struct Hits {
  std::int64_t count = 0;
  std::set<int> ranks;
  std::vector<Evidence> evidence;
};

class Reader {
 public:
  Reader() : hits_(catalogue().size()), literals_(watch_everything()) {}

  Diagnosis read(std::istream& log);

 private:
  std::vector<std::string> watch_everything();
  void line(std::string_view raw, std::int64_t number);
  void phrase_hit(int row, std::string_view raw, std::size_t at, std::int64_t number);
  void figures(std::string_view text);
  void event(std::string_view text);
  [[nodiscard]] std::map<std::string, std::string> facts() const;
  [[nodiscard]] std::vector<bool> rows_found() const;
  [[nodiscard]] std::vector<Cause> causes() const;

  std::vector<Watch> watches_;
  std::vector<Phrase> phrases_;
  std::vector<std::string> spellings_;  ///< (watches), the literal itself
  std::vector<Hits> hits_;
  SettingsSeen settings_;
  IterationSeries series_;
  std::optional<OutOfMemoryFigures> out_of_memory_;
  bool shared_device_ = false;
  std::set<std::string_view> frameworks_;
  std::vector<int> found_;
  LiteralSet literals_;  // last: built from watches_
};

constexpr std::array<std::string_view, 6> kEvents = {"loading checkpoint", "loaded checkpoint",
                                                     "resuming from",      "saving checkpoint",
                                                     "saved checkpoint",   "tried to allocate"};

std::vector<std::string> Reader::watch_everything() {
  std::vector<std::string> literals;
  const auto watch = [&](std::string text, Watch entry) {
    literals.push_back(text);
    spellings_.push_back(std::move(text));
    watches_.push_back(entry);
  };
  for (std::size_t row = 0; row < catalogue().size(); ++row) {
    for (const auto& pattern : catalogue()[row].any) {
      phrases_.emplace_back(pattern);
      watch(phrases_.back().anchor(),
            {Watch::Kind::kPhrase, static_cast<int>(row), static_cast<int>(phrases_.size()) - 1});
    }
  }
  for (const auto& key : SettingsSeen::keys()) {
    watch(key, {Watch::Kind::kSetting});
    std::string dashed = key;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    watch(dashed, {Watch::Kind::kSetting});
  }
  for (const auto& label : IterationSeries::labels()) watch(label, {Watch::Kind::kSeries});
  for (std::size_t i = 0; i < kFrameworkMarks.size(); ++i) {
    watch(std::string(kFrameworkMarks[i].text), {Watch::Kind::kFramework, static_cast<int>(i)});
  }
  for (const auto text : kEvents) watch(std::string(text), {Watch::Kind::kEvent});
  return literals;
}

void Reader::phrase_hit(int row, std::string_view raw, std::size_t at, std::int64_t number) {
  Hits& hits = hits_[static_cast<std::size_t>(row)];
  ++hits.count;
  if (const auto rank = rank_of(raw); rank && hits.ranks.size() < 100'000) hits.ranks.insert(*rank);
  const bool repeated = !hits.evidence.empty() && hits.evidence.back().line == number;
  if (hits.evidence.size() < kMaxEvidence && !repeated) {
    hits.evidence.push_back({number, printable(raw, at, kEvidenceWidth)});
  }
}

void Reader::figures(std::string_view text) {
  OutOfMemoryFigures figures = out_of_memory_.value_or(OutOfMemoryFigures());
  if (read_out_of_memory(text, figures)) out_of_memory_ = figures;
  if (names_another_process(text)) shared_device_ = true;
}

void Reader::event(std::string_view text) {
  const auto has = [&](std::string_view what) { return text.find(what) != text.npos; };
  if (has("loading checkpoint") || has("loaded checkpoint") || has("resuming from")) {
    series_.resumed();
  }
  if (has("saving checkpoint")) series_.saving(true);
  if (has("saved checkpoint")) series_.saving(false);
  if (has("tried to allocate")) figures(text);
}

void Reader::line(std::string_view raw, std::int64_t number) {
  const std::string text = normalised(raw);
  found_.clear();
  literals_.find_in(text, found_);
  bool series_read = false;
  bool event_read = false;
  std::sort(found_.begin(), found_.end());
  for (const int index : found_) {
    const Watch& watch = watches_[static_cast<std::size_t>(index)];
    switch (watch.kind) {
      case Watch::Kind::kPhrase: {
        const auto at = phrases_[static_cast<std::size_t>(watch.phrase)].find_in(text);
        if (at != std::string_view::npos) phrase_hit(watch.row, raw, at, number);
        break;
      }
      case Watch::Kind::kSetting:
        settings_.read(text, spellings_[static_cast<std::size_t>(index)]);
        break;
      case Watch::Kind::kSeries:
        if (!series_read) series_.read(text);
        series_read = true;
        break;
      case Watch::Kind::kFramework:
        frameworks_.insert(kFrameworkMarks[static_cast<std::size_t>(watch.row)].framework);
        break;
      case Watch::Kind::kEvent:
        if (!event_read) event(text);
        event_read = true;
        break;
    }
  }
}

std::map<std::string, std::string> Reader::facts() const {
  auto facts = series_.observations();
  facts.insert(settings_.values().begin(), settings_.values().end());
  if (out_of_memory_) {
    const auto& figures = *out_of_memory_;
    if (figures.wanted && figures.unallocated && *figures.unallocated >= *figures.wanted &&
        *figures.unallocated > 1_GiB) {
      facts["memory.fragmented"] = "true";
    }
    const bool others = figures.total && figures.free && figures.in_process &&
                        *figures.total - *figures.free - *figures.in_process > 2_GiB;
    if (shared_device_ || others) facts["memory.shared"] = "true";
  }
  return facts;
}

std::vector<bool> Reader::rows_found() const {
  const auto& rows = catalogue();
  const auto facts = this->facts();
  std::vector<bool> found(rows.size(), false);
  const auto row_found = [&](const std::string& id) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](auto& r) { return r.id == id; });
    return row != rows.end() && found[static_cast<std::size_t>(row - rows.begin())];
  };
  // Rows without `after` first: an `after` may name a row that stands below.
  for (const bool derived : {false, true}) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].after.empty() == derived) continue;
      found[i] = (rows[i].any.empty() || hits_[i].count > 0) &&
                 (!derived || std::any_of(rows[i].after.begin(), rows[i].after.end(), row_found)) &&
                 std::all_of(rows[i].when.begin(), rows[i].when.end(),
                             [&](const auto& condition) { return holds(condition, facts); });
    }
  }
  return found;
}

std::vector<Cause> Reader::causes() const {
  const auto& rows = catalogue();
  const auto found = rows_found();
  std::set<std::string> replaced;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (found[i]) replaced.insert(rows[i].replaces.begin(), rows[i].replaces.end());
  }
  std::vector<Cause> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!found[i] || replaced.contains(rows[i].id)) continue;
    const auto& row = rows[i];
    // A row that follows from another shows the lines of that one.
    std::size_t source = i;
    for (std::size_t j = 0; j < rows.size() && hits_[i].count == 0 && !row.after.empty(); ++j) {
      if (rows[j].id == row.after.front()) source = j;
    }
    const Hits& hits = hits_[source];
    Cause cause{row.id,
                row.title,
                row.cause,
                row.confirm,
                row.fix,
                row.both,
                row.both,
                row.shell,
                row.follows,
                hits.count,
                {hits.ranks.begin(), hits.ranks.end()},
                hits.evidence};
    cause.spillway.insert(cause.spillway.end(), row.spillway.begin(), row.spillway.end());
    cause.bridge.insert(cause.bridge.end(), row.bridge.begin(), row.bridge.end());
    out.push_back(std::move(cause));
  }
  std::stable_partition(out.begin(), out.end(), [](const Cause& c) { return !c.follows; });
  return out;
}

Diagnosis Reader::read(std::istream& log) {
  LineReader lines(log);
  Diagnosis out;
  while (const auto text = lines.next()) {
    ++out.num_lines;
    line(*text, lines.line_number());
  }
  out.causes = causes();
  out.frameworks.assign(frameworks_.begin(), frameworks_.end());
  out.settings = settings_.values();
  out.out_of_memory = out_of_memory_;
  out.iteration_ms = series_.median_ms();
  out.num_iterations = series_.num_iterations();
  out.num_bytes = Bytes(lines.num_bytes());
  out.looks_binary = lines.looks_binary();
  return out;
}

}  // namespace

Diagnosis diagnose(std::istream& log) { return Reader().read(log); }

int num_known_causes() { return static_cast<int>(catalogue().size()); }

}  // namespace spillway::planner
