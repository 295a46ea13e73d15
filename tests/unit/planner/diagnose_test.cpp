#include "spillway/planner/diagnose.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "unit/planner/diagnose_fixture.h"

namespace spillway::planner {
namespace {

using test::diagnose_file;
using test::diagnose_text;
using test::ids;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string iterations(int first, int last, double ms, double loss = 2.0, double norm = 1.0) {
  std::string out;
  for (int i = first; i <= last; ++i) {
    out += fmt::format(
        " [2024-01-01] iteration {:8d}/{:8d} | elapsed time per iteration (ms): {:.1f} | lm loss: "
        "{:.6E} | loss scale: 1.0 | grad norm: {:.3f} | number of skipped iterations:   0 | number "
        "of nan iterations:   0 |\n",
        i, last, ms, loss, norm);
  }
  return out;
}

TEST(Diagnose, SaysThatItRecognisesNothing) {
  const auto diagnosis = diagnose_text(iterations(1, 20, 996.0));
  EXPECT_THAT(ids(diagnosis), IsEmpty());
  EXPECT_THAT(to_text(diagnosis), HasSubstr("Nothing recognised in 20 lines"));
  EXPECT_EQ(nlohmann::json::parse(to_json(diagnosis))["recognised"], false);
}

TEST(Diagnose, FindsNothingWrongWithACleanRunThatPrintsAllItsArguments) {
  EXPECT_THAT(ids(diagnose_file("clean_megatron.log")), IsEmpty());
}

TEST(Diagnose, SaysThatAnEmptyLogIsEmpty) {
  EXPECT_THAT(to_text(diagnose_text("")), HasSubstr("The log is empty"));
}

TEST(Diagnose, SaysThatACompressedLogMustBeUnpacked) {
  const auto diagnosis = diagnose_text(std::string("\x1f\x8b\x08\x00", 4) + "junk");
  EXPECT_THAT(to_text(diagnosis), HasSubstr("zcat"));
}

TEST(Diagnose, ReadsTheFiguresOfEverySpellingOfOutOfMemory) {
  struct Spelling {
    const char* line;
    double wanted, total, free, allocated;
    std::optional<double> unallocated;
  };
  constexpr double kMi = 1048576.0;
  constexpr double kGi = 1073741824.0;
  const std::vector<Spelling> spellings = {
      {"RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total "
       "capacity; 6.68 GiB already allocated; 8.06 MiB free; 299.68 MiB cached)",
       20 * kMi, 7.93 * kGi, 8.06 * kMi, 6.68 * kGi, 299.68 * kMi},
      {"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total "
       "capacity; 14.56 GiB already allocated; 38.44 MiB free; 14.80 GiB reserved in total by "
       "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb",
       2 * kGi, 15.78 * kGi, 38.44 * kMi, 14.56 * kGi, 0.24 * kGi},
      {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a "
       "total capacty of 79.15 GiB of which 15.31 MiB is free. Including non-PyTorch memory, this "
       "process has 79.12 GiB memory in use. Of the allocated memory 76.00 GiB is allocated by "
       "PyTorch, and 600.00 MiB is reserved by PyTorch but unallocated.",
       1.5 * kGi, 79.15 * kGi, 15.31 * kMi, 76 * kGi, 600 * kMi},
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 KiB. GPU 3 has a "
       "total capacity of 139.72 GiB of which 1.14 GiB is free. Including non-PyTorch memory, this "
       "process has 138.50 GiB memory in use. Of the allocated memory 136.00 GiB is allocated by "
       "PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
       512 * 1024.0, 139.72 * kGi, 1.14 * kGi, 136 * kGi, 0.0},
  };
  for (const auto& spelling : spellings) {
    const auto diagnosis = diagnose_text(spelling.line);
    ASSERT_THAT(ids(diagnosis), Contains("device-out-of-memory")) << spelling.line;
    ASSERT_TRUE(diagnosis.out_of_memory) << spelling.line;
    const auto& figures = *diagnosis.out_of_memory;
    EXPECT_NEAR(figures.wanted.value().value, spelling.wanted, 1) << spelling.line;
    EXPECT_NEAR(figures.total.value().value, spelling.total, 1) << spelling.line;
    EXPECT_NEAR(figures.free.value().value, spelling.free, 1) << spelling.line;
    EXPECT_NEAR(figures.allocated.value().value, spelling.allocated, 1) << spelling.line;
    EXPECT_NEAR(figures.unallocated.value().value, *spelling.unallocated, 2) << spelling.line;
  }
}

TEST(Diagnose, TellsFragmentationFromTheFigures) {
  const auto fragmented = diagnose_text(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
      "capacity of 79.11 GiB of which 1.14 GiB is free. Including non-PyTorch memory, this process "
      "has 77.97 GiB memory in use. Of the allocated memory 60.00 GiB is allocated by PyTorch, and "
      "16.50 GiB is reserved by PyTorch but unallocated.");
  EXPECT_THAT(ids(fragmented), ElementsAre("device-fragmentation", "device-out-of-memory"));
}

TEST(Diagnose, TellsThatAnotherProcessHoldsTheDevice) {
  const auto shared = diagnose_text(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
      "capacity of 79.11 GiB of which 1.14 GiB is free. Process 4711 has 50.10 GiB memory in use. "
      "Including non-PyTorch memory, this process has 27.00 GiB memory in use.");
  EXPECT_THAT(ids(shared), Contains("device-shared-with-others"));
}

TEST(Diagnose, BlamesTheModelsSizeWhenActivationOffloadingRunsOutOfMemory) {
  const auto diagnosis = diagnose_file("activation_offload_oom.log");
  ASSERT_THAT(ids(diagnosis), Contains("activation-offload-model-too-large"));
  EXPECT_THAT(ids(diagnosis), Not(Contains("device-out-of-memory")));
  EXPECT_EQ(diagnosis.causes.front().id, "activation-offload-model-too-large");
  EXPECT_THAT(diagnosis.causes.front().bridge, Contains("optimizer.optimizer_cpu_offload=True"));
  EXPECT_EQ(diagnosis.causes.front().ranks, (std::vector<int>{0, 3}));
}

TEST(Diagnose, SaysToRaiseAPartialFraction) {
  const auto log =
      "run_recipe.py --recipe x optimizer.optimizer_cpu_offload=True "
      "optimizer.optimizer_offload_fraction=0.25\ntorch.OutOfMemoryError: CUDA out of memory.\n";
  EXPECT_THAT(ids(diagnose_text(log)), ElementsAre("partial-fraction-too-small"));
}

TEST(Diagnose, SaysThatAFullFractionHasNothingMoreToGive) {
  const auto log =
      "pretrain_gpt.py --optimizer-cpu-offload --optimizer-offload-fraction 1.0 "
      "--overlap-cpu-optimizer-d2h-h2d\nRuntimeError: CUDA error: out of memory\n";
  const auto diagnosis = diagnose_text(log);
  EXPECT_THAT(ids(diagnosis), ElementsAre("full-fraction-not-enough"));
  EXPECT_EQ(diagnosis.settings.at("overlap_cpu_optimizer_d2h_h2d"), "true");
}

TEST(Diagnose, ReadsSettingsFromArgumentDumpsYamlAndCommandLines) {
  for (const char* text :
       {"  optimizer_offload_fraction ...................... 0.5\n",
        "optimizer_offload_fraction: 0.5", "'optimizer_offload_fraction': 0.5, 'x': 1",
        "optimizer.optimizer_offload_fraction=0.5", "--optimizer-offload-fraction 0.5 --bf16",
        "--optimizer-offload-fraction=0.5",
        "OptimizerConfig(optimizer_offload_fraction=0.5, lr=1e-4)"}) {
    const auto settings = diagnose_text(text).settings;
    ASSERT_TRUE(settings.contains("optimizer_offload_fraction")) << text;
    EXPECT_EQ(settings.at("optimizer_offload_fraction"), "0.5") << text;
  }
}

TEST(Diagnose, TakesSourceLinesOfATracebackForNoSetting) {
  const auto settings =
      diagnose_text(
          "    if self.cpu_offloading and self.pipeline_model_parallel_size > 1:\n"
          "    assert config.cpu_offloading == True\n    cpu_offloading: bool = False\n")
          .settings;
  EXPECT_TRUE(settings.empty());
}

TEST(Diagnose, FindsTheOneThreadAdamUnderTorchrun) {
  const std::string warning =
      "*****\nSetting OMP_NUM_THREADS environment variable for each process to be 1 in default, to "
      "avoid your system being overloaded, please further tune the variable for optimal "
      "performance in your application as needed.\n*****\n";
  EXPECT_THAT(ids(diagnose_text(warning)), ElementsAre("one-thread-by-torchrun"));
  EXPECT_THAT(ids(diagnose_text(warning + "optimizer.optimizer_cpu_offload=True\n")),
              ElementsAre("one-thread-host-adam", "one-thread-by-torchrun"));
}

TEST(Diagnose, FindsASlowdownBeyondFourTimesAcrossTwoRuns) {
  const std::string offloaded = "  optimizer_cpu_offload ........... True\n";
  const auto slow = diagnose_text(iterations(1, 20, 996.0) + offloaded + iterations(1, 20, 4189.0));
  EXPECT_THAT(ids(slow), ElementsAre("slow-more-than-four-times"));
  const auto fair = diagnose_text(iterations(1, 20, 996.0) + offloaded + iterations(1, 20, 3187.0));
  EXPECT_THAT(ids(fair), IsEmpty());
}

TEST(Diagnose, FindsAnOptimizerStepThatDominates) {
  const std::string timers =
      "    forward-backward ...............................: (812.11, 815.00)\n"
      "    optimizer-inner-step ...........................: (3190.10, 3201.55)\n"
      "    optimizer ......................................: (3200.10, 3222.55)\n";
  EXPECT_THAT(ids(diagnose_text(timers)), ElementsAre("optimizer-step-dominates"));
}

TEST(Diagnose, FindsIterationsThatBecomeSlower) {
  std::string log;
  for (int i = 1; i <= 400; ++i) log += iterations(i, i, 1000.0 + 2.0 * i);
  EXPECT_THAT(ids(diagnose_text(log)), ElementsAre("slows-down-over-time"));
}

TEST(Diagnose, FindsALossThatJumpsAfterResuming) {
  const auto before = iterations(1, 10, 900.0, 0.31);
  const std::string resume = " loading checkpoint from /ckpt at iteration 10\n";
  EXPECT_THAT(ids(diagnose_text(before + resume + iterations(11, 15, 900.0, 10.0))),
              ElementsAre("resume-loss-jump"));
  EXPECT_THAT(ids(diagnose_text(before + resume + iterations(11, 15, 900.0, 0.32))), IsEmpty());
}

TEST(Diagnose, FindsAGradientNormThatIsAlwaysZero) {
  EXPECT_THAT(ids(diagnose_text(iterations(1, 10, 900.0, 2.0, 0.0))),
              ElementsAre("gradient-norm-zero"));
}

TEST(Diagnose, FindsDeviceMemoryThatGrows) {
  std::string log;
  for (int i = 1; i <= 30; ++i) {
    log += fmt::format(
        "[Rank 0] (after {} iterations) memory (MB) | allocated: 100.0 | max "
        "allocated: {}.0 | reserved: 1.0\n",
        i, 40000 + 500 * i);
  }
  EXPECT_THAT(ids(diagnose_text(log)), ElementsAre("device-memory-grows"));
}

TEST(Diagnose, PutsConsequencesLast) {
  const auto diagnosis = diagnose_text(
      "[rank1]: torch.distributed.DistBackendError: NCCL error: remote process has exited\n"
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
      "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.\n");
  EXPECT_THAT(ids(diagnosis), ElementsAre("host-out-of-memory-killed", "peer-lost"));
  EXPECT_THAT(to_text(diagnosis), HasSubstr("usually follow from the above"));
}

TEST(Diagnose, TakesATimeoutWhileSavingForAHangingSave) {
  const std::string timeout = "[rank3]:[E] Watchdog caught collective operation timeout\n";
  EXPECT_THAT(ids(diagnose_text("saving checkpoint at iteration 10 to /c\n" + timeout)),
              ElementsAre("save-hangs"));
  EXPECT_THAT(ids(diagnose_text("saving checkpoint at iteration 10 to /c\n"
                                "successfully saved checkpoint from iteration 10\n" +
                                timeout)),
              ElementsAre("collective-timeout"));
}

TEST(Diagnose, SeesThroughColoursPrefixesJsonAndWideCharacters) {
  const std::string message = "CUDA out of memory. Tried to allocate 2.00 GiB";
  std::string wide = "\xff\xfe";
  for (const char c : message + "\n") {
    wide += c;
    wide += '\0';
  }
  for (const std::string& log :
       {"\x1b[1;31m" + message + "\x1b[0m", "[rank7]: " + message, "(Worker pid=3) " + message,
        R"({"log":"RuntimeError: )" + message + R"(\n","stream":"stderr"})", wide}) {
    EXPECT_THAT(ids(diagnose_text(log)), ElementsAre("device-out-of-memory"));
  }
}

TEST(Diagnose, SurvivesAnyBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::string junk(100'000, '\0');
    for (auto& c : junk) c = static_cast<char>(random());
    junk += "\nRuntimeError: CUDA out of memory. Tried to allocate 1e999999 GiB\n";
    const auto diagnosis = diagnose_text(junk);
    EXPECT_THAT(ids(diagnosis), Contains("device-out-of-memory"));
    EXPECT_TRUE(nlohmann::json::accept(to_json(diagnosis)));
  }
}

TEST(Diagnose, ShowsNoControlCharacterOfTheLog) {
  const auto text =
      to_text(diagnose_text("\x1b]52;c;ZWNobyBoaQ==\x07 CUDA out of memory \x1b[2J\x9b"
                            "31m \xe2\x80\xae\n"));
  for (const char c : text) {
    EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << static_cast<int>(c);
  }
}

TEST(Diagnose, CountsAndNumbersWhatRepeats) {
  std::string log;
  for (int rank = 0; rank < 64; ++rank) {
    log += fmt::format("[rank{}]: RuntimeError: CUDA error: out of memory\n", rank);
  }
  const auto diagnosis = diagnose_text(log);
  ASSERT_THAT(diagnosis.causes, testing::SizeIs(1));
  EXPECT_EQ(diagnosis.causes[0].count, 64);
  EXPECT_EQ(diagnosis.causes[0].evidence.size(), 3U);
  EXPECT_EQ(diagnosis.causes[0].evidence[2].line, 3);
  EXPECT_THAT(to_text(diagnosis), HasSubstr("seen 64 times, ranks 0-63"));
}

TEST(Diagnose, TurnsAwayNoLogForItsLength) {
  // 64 MiB without a newline, then the message.
  class Endless : public std::streambuf {
    int_type underflow() override {
      if (++blocks_ > 64) return traits_type::eof();
      block_.assign(1 << 20, 'x');
      if (blocks_ == 64) block_ += " CUDA out of memory \n";
      setg(block_.data(), block_.data(), block_.data() + block_.size());
      return traits_type::to_int_type(block_[0]);
    }
    std::string block_;
    int blocks_ = 0;
  };
  Endless buffer;
  std::istream in(&buffer);
  EXPECT_THAT(ids(diagnose(in)), ElementsAre("device-out-of-memory"));
}

TEST(Diagnose, NamesTheFrameworkAndItsOverrides) {
  const auto diagnosis = diagnose_text(
      "  File \"/opt/megatron/bridge/training/pretrain.py\", line 1\n"
      "ValueError: Currently there is no support for Pipeline parallelism with CPU offloading\n");
  EXPECT_THAT(diagnosis.frameworks, ElementsAre("Megatron Bridge"));
  const auto text = to_text(diagnosis);
  EXPECT_THAT(text, HasSubstr("To confirm"));
  EXPECT_THAT(text, HasSubstr("optimizer.optimizer_cpu_offload=True"));
}

}  // namespace
}  // namespace spillway::planner
