// SPDX-License-Identifier: Apache-2.0
// The command `profile`: measures the tasks of a graph and the link of a device, into one file.
#include <climits>
#include <iostream>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/memory/device/owned.h"
#include "tidepool/host_device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/task_profile.h"
#include "trace_replay/command.h"
#include "trace_replay/offload/graph_file.h"
#include "trace_replay/offload/sweep_values.h"
#include "trace_replay/options.h"
#include "trace_replay/replay/cuda_devices.h"
#include "trace_replay/text.h"
#include "trace_replay/tune/cudnn_library.h"

namespace tidepool::tool {
namespace {

constexpr std::int64_t kMostSamplesOfProfile = std::int64_t{1} << 20;

struct ProfileOptions {
  std::string graph;
  std::string device = "host";
  std::string batches;
  std::string store = "tidepool-profile.sqlite";
  std::string output;
  std::vector<std::string> merged;  // other profiles
  std::string convolutions;         // a policy of MicroBatchSizes; empty: tasks and links
  std::string layout = "NCHW";
  std::string type = "float";
  int runs = 5;
  bool again = false;
  bool json = false;
  const CLI::App* app = nullptr;
};

// The work of one call: its device, its file, and the results so far.
struct Profiling {
  std::unique_ptr<Device> device;
  std::unique_ptr<ProfileStore> store;
  ProfiledMachine machine;
  bool has_kernels = false;  // the device has work for tasks
  LinkTime in;
  LinkTime out;
  std::int64_t measured = 0;
  std::int64_t known = 0;
  std::int64_t without_kernel = 0;
};

absl::StatusOr<std::vector<std::int64_t>> BatchesOf(const ProfileOptions& options,
                                                    const GraphOrFamily& read) {
  const auto* family = std::get_if<GraphFamily>(&read);
  if (options.batches.empty()) {
    return family == nullptr ? std::vector<std::int64_t>{0} : family->batches;
  }
  if (family == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--batches: ", absl::CHexEscape(options.graph),
                     " has one batch, expected a graph at any batch"));
  }
  auto batches = ParseWholes(options.batches, {.least = 1, .most = kMostSamplesOfProfile});
  if (batches.ok()) return std::move(batches->values);
  return absl::InvalidArgumentError(absl::StrCat("--batches: ", batches.status().message()));
}

absl::StatusOr<std::vector<TaskGraph>> GraphsOf(const ProfileOptions& options,
                                                const GraphOrFamily& read) {
  const absl::StatusOr<std::vector<std::int64_t>> batches = BatchesOf(options, read);
  if (!batches.ok()) return batches.status();
  if (const auto* graph = std::get_if<TaskGraph>(&read)) return std::vector<TaskGraph>{*graph};
  std::vector<TaskGraph> graphs;
  for (const std::int64_t batch : *batches) {
    absl::StatusOr<TaskGraph> graph = GraphAt(std::get<GraphFamily>(read), batch);
    if (!graph.ok()) return graph.status();
    graphs.push_back(*std::move(graph));
  }
  return graphs;
}

// `gpu` is that of the graph's times.
absl::Status OpenDevice(const ProfileOptions& options, const std::string& gpu, Profiling& work) {
  if (options.device != "host" && options.device != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", absl::CHexEscape(options.device), "', expected host or cuda"));
  }
  work.has_kernels = options.device == "host";
  if (work.has_kernels) {
    absl::StatusOr<std::unique_ptr<HostDevice>> device = HostDevice::Create({});
    if (!device.ok()) return device.status();
    work.device = *std::move(device);
    work.machine.library = absl::StrCat("tasks that sleep for times of ", gpu);
  } else {
    absl::StatusOr<std::unique_ptr<Device>> device = MakeCudaDevice();
    if (!device.ok()) return device.status();
    work.device = *std::move(device);
  }
  work.machine.device = work.device->name();
  return absl::OkStatus();
}

absl::StatusOr<LinkTime> LinkOf(const ProfileOptions& options, CopyDirection direction,
                                Profiling& work) {
  const auto before = work.store->FindLink(work.machine, direction);
  if (!before.ok()) return before.status();
  if (before->has_value() && !options.again) return **before;
  const absl::StatusOr<LinkTime> time =
      MeasureLink(*work.device, {.direction = direction, .runs = options.runs});
  if (!time.ok()) return time.status();
  if (absl::Status status = work.store->PutLink(work.machine, direction, *time); !status.ok()) {
    return status;
  }
  return *time;
}

absl::Status MeasureLinks(const ProfileOptions& options, Profiling& work) {
  const absl::StatusOr<LinkTime> in = LinkOf(options, CopyDirection::kToDevice, work);
  if (!in.ok()) return in.status();
  const absl::StatusOr<LinkTime> out = LinkOf(options, CopyDirection::kFromDevice, work);
  if (!out.ok()) return out.status();
  work.in = *in;
  work.out = *out;
  return absl::OkStatus();
}

// Measures an algorithm of a task, unless the file has its time.
absl::Status MeasureAlgorithm(const ProfileOptions& options, const TaskGraph& graph,
                              const TaskLaunch& launch, const LaunchTask& launch_task,
                              Profiling& work) {
  const ProfileKey key = KeyOf(graph, launch.task, launch.algorithm, work.machine);
  const auto before = work.store->Find(key);
  if (!before.ok()) return before.status();
  if (before->has_value() && !options.again) {
    ++work.known;
    return absl::OkStatus();
  }
  const absl::StatusOr<double> seconds =
      MedianSeconds(*work.device, launch.stream, options.runs, [&] { return launch_task(launch); });
  if (!seconds.ok()) return seconds.status();
  ++work.measured;
  const TaskAlgorithm& algorithm = graph.tasks[launch.task].algorithms[launch.algorithm];
  return work.store->Put(key, {*seconds, algorithm.workspace_bytes, options.runs});
}

absl::Status MeasureTasks(const ProfileOptions& options, const TaskGraph& graph, Profiling& work) {
  const absl::StatusOr<device::OwnedStream> stream = device::OwnedStream::Create(*work.device);
  if (!stream.ok()) return stream.status();
  const LaunchTask launch_task = SleepingTasks(work.device.get(), graph, 1);
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    for (std::size_t at = 0; at < graph.tasks[task].algorithms.size(); ++at) {
      const TaskLaunch launch = {.task = task, .algorithm = at, .stream = stream->get()};
      absl::Status status = MeasureAlgorithm(options, graph, launch, launch_task, work);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status MeasureGraphs(const ProfileOptions& options, const std::vector<TaskGraph>& graphs,
                           Profiling& work) {
  for (const TaskGraph& graph : graphs) {
    if (work.has_kernels) {
      if (absl::Status status = MeasureTasks(options, graph, work); !status.ok()) return status;
      continue;
    }
    for (const GraphTask& task : graph.tasks) {
      work.without_kernel += static_cast<std::int64_t>(task.algorithms.size());
    }
  }
  return absl::OkStatus();
}

// Writes the graph or the family with the times of the file.
absl::Status WriteMeasured(const ProfileOptions& options, GraphOrFamily read,
                           const std::vector<TaskGraph>& graphs, Profiling& work) {
  std::vector<TaskGraph> measured = graphs;
  for (TaskGraph& graph : measured) {
    const auto found = UseProfile(*work.store, work.machine, graph);
    if (!found.ok()) return found.status();
  }
  if (std::holds_alternative<TaskGraph>(read)) return WriteGraph(measured.front(), options.output);
  GraphFamily& family = std::get<GraphFamily>(read);
  std::vector<std::int64_t> batches;
  batches.reserve(measured.size());
  for (const TaskGraph& graph : measured) batches.push_back(graph.batch);
  family.cost_model = [&](TaskGraph& graph) {
    for (const TaskGraph& its : measured) {
      if (its.batch == graph.batch) graph.tasks = its.tasks;
    }
    return absl::OkStatus();
  };
  if (absl::Status status = TabulateCosts(batches, family); !status.ok()) return status;
  return WriteFamily(family, options.output);
}

nlohmann::ordered_json LinkJson(const LinkTime& link) {
  return {{"latency_seconds", link.latency_seconds}, {"bytes_per_second", link.bytes_per_second}};
}

std::string LinkTimeText(const LinkTime& link) {
  return absl::StrCat(RateText(link.bytes_per_second), ", latency ",
                      MillisecondsText(link.latency_seconds));
}

void Print(const ProfileOptions& options, const Profiling& work) {
  if (options.json) {
    return PrintJson({{"device", work.machine.device},
                      {"library", work.machine.library},
                      {"store", options.store},
                      {"measured", work.measured},
                      {"known", work.known},
                      {"without_kernel", work.without_kernel},
                      {"link_in", LinkJson(work.in)},
                      {"link_out", LinkJson(work.out)},
                      {"output", options.output.empty() ? nlohmann::ordered_json()
                                                        : nlohmann::ordered_json(options.output)}});
  }
  std::vector<std::vector<std::string>> rows = {{"link to the device", LinkTimeText(work.in)},
                                                {"link from the device", LinkTimeText(work.out)},
                                                {"algorithms measured", CountText(work.measured)},
                                                {"  known before", CountText(work.known)}};
  if (work.without_kernel > 0) {
    rows.push_back({"  without a kernel", CountText(work.without_kernel)});
  }
  std::cout << absl::CHexEscape(work.machine.device) << ", times in "
            << absl::CHexEscape(options.store) << "\n\n"
            << TableText(rows);
}

// Adds the measurements of other profiles.
absl::StatusOr<Answer> MergeProfiles(const ProfileOptions& options) {
  const absl::StatusOr<std::unique_ptr<ProfileStore>> store = ProfileStore::Open(options.store);
  if (!store.ok()) return store.status();
  std::int64_t added = 0;
  for (const std::string& path : options.merged) {
    const absl::StatusOr<std::int64_t> its = (*store)->Merge(path);
    if (!its.ok()) return its.status();
    added += *its;
  }
  if (options.json) {
    PrintJson({{"store", options.store}, {"merged", options.merged}, {"added", added}});
  } else {
    std::cout << CountText(added) << " measurements added to " << absl::CHexEscape(options.store)
              << '\n';
  }
  return Answer::kYes;
}

// Measures the convolutions of the graphs with cuDNN.
absl::StatusOr<Answer> ProfileConvolutions(const ProfileOptions& options,
                                           const std::vector<TaskGraph>& graphs) {
  // A file that is no profile is an error here. A program would go on without it.
  const auto store = ProfileStore::Open(options.store);
  if (!store.ok()) return store.status();
  CudnnMeasurement all;
  for (const TaskGraph& graph : graphs) {
    const absl::StatusOr<CudnnMeasurement> its = MeasureConvolutions(
        graph, {.is_nhwc = options.layout == "NHWC", .is_half = options.type == "half"},
        options.convolutions, options.store);
    if (!its.ok()) return its.status();
    all.convolutions += its->convolutions;
    all.measured += its->measured;
  }
  if (options.json) {
    PrintJson(
        {{"store", options.store}, {"convolutions", all.convolutions}, {"measured", all.measured}});
  } else {
    std::cout << CountText(all.convolutions) << " convolutions, " << CountText(all.measured)
              << " micro-batches measured into " << absl::CHexEscape(options.store) << '\n';
  }
  return Answer::kYes;
}

// Refuses options of measurements that are not made.
absl::Status CheckTaken(const ProfileOptions& options) {
  if (!options.merged.empty()) {
    return Refuse(*options.app,
                  {"--device", "--batches", "--convolutions", "--layout", "--type", "--runs",
                   "--again", "--output"},
                  "--merge measures nothing, expected GRAPH in its place");
  }
  if (options.convolutions.empty()) {
    return Refuse(*options.app, {"--layout", "--type"},
                  "about the convolutions of --convolutions, expected that option too");
  }
  return Refuse(*options.app, {"--output"},
                "--convolutions writes no graph with times, expected no --output");
}

absl::Status CheckKind(const ProfileOptions& options) {
  if (options.merged.empty() == options.graph.empty()) {
    return absl::InvalidArgumentError(
        options.graph.empty() ? "profile: GRAPH is missing, expected a task graph or --merge"
                              : "--merge: measures nothing, but GRAPH names a graph to measure: "
                                "remove one of the two");
  }
  if (options.layout != "NCHW" && options.layout != "NHWC") {
    return absl::InvalidArgumentError(
        absl::StrCat("--layout: '", absl::CHexEscape(options.layout), "', expected NCHW or NHWC"));
  }
  if (options.type != "float" && options.type != "half") {
    return absl::InvalidArgumentError(
        absl::StrCat("--type: '", absl::CHexEscape(options.type), "', expected float or half"));
  }
  return CheckTaken(options);
}

absl::StatusOr<Answer> RunProfile(const ProfileOptions& options) {
  if (absl::Status status = CheckKind(options); !status.ok()) return status;
  if (!options.merged.empty()) return MergeProfiles(options);
  if (absl::Status status = CheckJsonOutput(options.json, options.output, "graph"); !status.ok()) {
    return status;
  }
  absl::StatusOr<GraphOrFamily> read = ReadGraphFile(options.graph);
  if (!read.ok()) return read.status();
  const absl::StatusOr<std::vector<TaskGraph>> graphs = GraphsOf(options, *read);
  if (!graphs.ok()) return graphs.status();
  if (!options.convolutions.empty()) return ProfileConvolutions(options, *graphs);
  Profiling work;
  if (absl::Status status = OpenDevice(options, graphs->front().gpu, work); !status.ok())
    return status;
  absl::StatusOr<std::unique_ptr<ProfileStore>> store = ProfileStore::Open(options.store);
  if (!store.ok()) return store.status();
  work.store = *std::move(store);
  absl::Status status = MeasureLinks(options, work);
  if (status.ok()) status = MeasureGraphs(options, *graphs, work);
  if (status.ok() && !options.output.empty()) {
    status = WriteMeasured(options, *std::move(read), *graphs, work);
  }
  if (!status.ok()) return status;
  if (options.output != "/dev/stdout") Print(options, work);
  return Answer::kYes;
}

}  // namespace

Command AddProfile(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* profile = app.add_subcommand(
      "profile", "Measures the tasks of a graph and the link of a device, into one file");
  options->app = profile;
  profile->group("Training iterations");
  profile->add_option("GRAPH", options->graph,
                      "The task graph, a file as `tidepool model -o` writes it");
  profile
      ->add_option("--device", options->device,
                   "host: tasks sleep for their time; cuda: the link alone, because this build has "
                   "no kernels")
      ->type_name("NAME")
      ->capture_default_str();
  profile
      ->add_option("--batches", options->batches,
                   "Batches of a graph at any batch: a list 1,2,4, or a range 8..64/8 (default: "
                   "those of its table)")
      ->type_name("NUMBERS");
  profile
      ->add_option("--store", options->store,
                   "The SQLite file of measurements; several processes may share it")
      ->type_name("FILE")
      ->capture_default_str();
  profile
      ->add_option("--convolutions", options->convolutions,
                   "Measure convolutions instead, with cuDNN on a GPU, in micro-batches: "
                   "undivided, powerOfTwo, all, or numbers such as 8,16,32")
      ->type_name("POLICY");
  profile->add_option("--layout", options->layout, "The layout of --convolutions: NCHW or NHWC")
      ->type_name("NAME")
      ->capture_default_str();
  profile
      ->add_option("--type", options->type,
                   "The data of --convolutions: float, or half with sums in float")
      ->type_name("NAME")
      ->capture_default_str();
  profile
      ->add_option("--merge", options->merged,
                   "Add the measurements of other profiles, such as those of other nodes, and "
                   "measure nothing")
      ->type_name("FILE");
  AddWholeOption(*profile, "--runs", options->runs, {.least = 1, .most = INT_MAX},
                 "Runs of each task and copy, after one to warm up; the median counts");
  profile->add_flag("--again", options->again, "Measure times that the file has already");
  profile
      ->add_option("-o,--output", options->output,
                   "Write the graph with the measured times to this JSON file")
      ->type_name("FILE");
  AddJsonOption(*profile, options->json);
  AddExamples(*profile, {"tidepool model alexnet --batch 8 -o alexnet.json",
                         "tidepool profile alexnet.json -o measured.json"});
  return {profile, [options] { return RunProfile(*options); }};
}

}  // namespace tidepool::tool
