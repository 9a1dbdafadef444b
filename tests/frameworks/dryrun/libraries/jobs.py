# SPDX-License-Identifier: Apache-2.0
"""Small jobs with libraries of today, for dry runs: jobs.py NAME

A job is a function. Its name begins with that of its library, and its docstring describes it. Reading the file needs no library.
"""
import os
import sys
import tempfile

STEPS = 3


def train(model, make_loss, optimizer=None):
    """Takes a few steps of training."""
    import torch

    optimizer = optimizer or torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4)
    for _ in range(STEPS):
        optimizer.zero_grad()
        make_loss(model).backward()
        optimizer.step()


def classify(model, batch=16, size=224):
    """Trains a classifier of images."""
    import torch

    images = torch.zeros(batch, 3, size, size, device="cuda")
    labels = torch.zeros(batch, dtype=torch.long, device="cuda")
    train(model.cuda().train(), lambda net: torch.nn.functional.cross_entropy(net(images), labels))


def llama_config(**changes):
    from transformers import LlamaConfig

    sizes = {"vocab_size": 8192, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4, "num_attention_heads": 8,
             "num_key_value_heads": 4, "max_position_embeddings": 512}
    return LlamaConfig(**{**sizes, **changes})


def llama(**options):
    """Returns a small Llama with random weights."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(llama_config(), **options)


def tokens(batch=4, length=256):
    import torch

    return torch.zeros(batch, length, dtype=torch.long, device="cuda")


def tokenizer():
    """Returns a tokenizer of a few words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["<pad>", "<eos>", "<unk>", "the", "memory", "of", "a", "step"])}
    fast = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def fit(model, **settings):
    """Trains a language model with the Trainer of transformers."""
    import torch
    from transformers import Trainer, TrainingArguments

    rows = [{"input_ids": torch.zeros(256, dtype=torch.long), "labels": torch.zeros(256, dtype=torch.long)} for _ in range(32)]
    arguments = TrainingArguments(output_dir=tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=4, report_to=[], save_strategy="no",
                                  **settings)
    Trainer(model=model, args=arguments, train_dataset=rows).train()


def torchvision_classification():
    """ResNet-50, 16 images of 224 x 224, AdamW"""
    import torchvision

    classify(torchvision.models.resnet50())


def torchvision_transformer():
    """Swin-T, 16 images of 224 x 224, AdamW"""
    import torchvision

    classify(torchvision.models.swin_t())


def torchvision_detection():
    """Faster R-CNN with ResNet-50 and FPN, two images of 640 x 640"""
    import torch
    import torchvision

    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None).cuda().train()
    images = [torch.zeros(3, 640, 640, device="cuda")] * 2
    targets = [{"boxes": torch.tensor([[50.0, 60.0, 400.0, 500.0]] * 4, device="cuda"), "labels": torch.ones(4, dtype=torch.int64, device="cuda")}] * 2
    train(model, lambda net: sum(net(images, targets).values()))


def torchvision_detects():
    """RetinaNet with ResNet-50 and FPN, boxes of two images of 640 x 640"""
    import torch
    import torchvision

    model = torchvision.models.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None).cuda().eval()
    with torch.no_grad():
        model([torch.zeros(3, 640, 640, device="cuda")] * 2)


def torchvision_segmentation():
    """DeepLabV3 with ResNet-50, four images of 256 x 256, AdamW"""
    import torch
    import torchvision

    model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None).cuda().train()
    images, labels = torch.zeros(4, 3, 256, 256, device="cuda"), torch.zeros(4, 256, 256, dtype=torch.long, device="cuda")
    train(model, lambda net: torch.nn.functional.cross_entropy(net(images)["out"], labels))


def torchvision_video():
    """R3D-18, two clips of 16 frames of 112 x 112, AdamW"""
    import torch
    import torchvision

    clips, labels = torch.zeros(2, 3, 16, 112, 112, device="cuda"), torch.zeros(2, dtype=torch.long, device="cuda")
    train(torchvision.models.video.r3d_18().cuda(), lambda net: torch.nn.functional.cross_entropy(net(clips), labels))


def timm_transformer():
    """ViT-B/16 with timm's AdamW, 16-bit autocast, NativeScaler, an average of the weights"""
    import timm
    import timm.optim
    import timm.utils
    import torch

    model = timm.create_model("vit_base_patch16_224").cuda()
    optimizer, scaler = timm.optim.create_optimizer_v2(model, "adamw", lr=1e-4), timm.utils.NativeScaler()
    average = timm.utils.ModelEmaV3(model)
    images, labels = torch.zeros(16, 3, 224, 224, device="cuda"), torch.zeros(16, dtype=torch.long, device="cuda")
    for _ in range(STEPS):
        with torch.autocast("cuda", torch.float16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        average.update(model)


def timm_convolutions():
    """EfficientNet-B0, 16 images of 224 x 224, AdamW"""
    import timm

    classify(timm.create_model("efficientnet_b0"))


def transformers_trainer():
    """`Trainer` with a Llama of 4 layers, bfloat16, gradient checkpointing"""
    fit(llama(), bf16=True, gradient_checkpointing=True)


def transformers_generate():
    """`generate` of 16 tokens with a Llama of 4 layers"""
    llama().cuda().generate(tokens(2, 32), max_new_tokens=16, do_sample=False)


def transformers_experts():
    """Mixtral of 2 layers of 8 experts, AdamW"""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(vocab_size=8192, hidden_size=512, intermediate_size=1024, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4)
    train(MixtralForCausalLM(config).cuda(), lambda net: net(input_ids=tokens(), labels=tokens()).loss)


def transformers_speech():
    """Whisper of 2 layers, 2 recordings of 30 s, AdamW"""
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(encoder_layers=2, decoder_layers=2, d_model=384, encoder_attention_heads=6, decoder_attention_heads=6)
    sound = torch.zeros(2, 80, 3000, device="cuda")
    train(WhisperForConditionalGeneration(config).cuda(), lambda net: net(input_features=sound, labels=tokens(2, 64)).loss)


def transformers_flash_attention():
    """`attn_implementation="flash_attention_2"`"""
    import torch

    train(llama(attn_implementation="flash_attention_2", dtype=torch.bfloat16).cuda(), lambda net: net(input_ids=tokens(), labels=tokens()).loss)


def peft_lora():
    """LoRA of rank 16 on a Llama of 4 layers, with the `Trainer`"""
    from peft import LoraConfig, get_peft_model

    fit(get_peft_model(llama(), LoraConfig(r=16, task_type="CAUSAL_LM")), bf16=True)


def peft_dora():
    """DoRA of rank 16 on a Llama of 4 layers"""
    from peft import LoraConfig, get_peft_model

    train(get_peft_model(llama(), LoraConfig(r=16, use_dora=True, task_type="CAUSAL_LM")).cuda(),
          lambda net: net(input_ids=tokens(), labels=tokens()).loss)


def peft_qlora():
    """QLoRA: a Llama of 4 layers in 4 bits by bitsandbytes, with gradient checkpointing"""
    import torch
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    folder = tempfile.mkdtemp()
    llama(dtype=torch.bfloat16).save_pretrained(folder)
    bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16, bnb_4bit_use_double_quant=True)
    model = prepare_model_for_kbit_training(AutoModelForCausalLM.from_pretrained(folder, quantization_config=bits, device_map={"": 0}))
    train(get_peft_model(model, LoraConfig(r=16, task_type="CAUSAL_LM")), lambda net: net(input_ids=tokens(), labels=tokens()).loss)


def trl_sft():
    """`SFTTrainer` on a Llama of 4 layers"""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    rows = Dataset.from_dict({"text": ["the memory of a step " * 20] * 16})
    settings = SFTConfig(output_dir=tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=4, report_to=[], save_strategy="no", bf16=True)
    SFTTrainer(model=llama(), args=settings, train_dataset=rows, processing_class=tokenizer()).train()


def trl_dpo():
    """`DPOTrainer` on a Llama of 4 layers with a reference model"""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    rows = Dataset.from_dict({"prompt": ["the memory"] * 16, "chosen": ["of a step"] * 16, "rejected": ["of the step"] * 16})
    settings = DPOConfig(output_dir=tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=4, report_to=[], save_strategy="no", bf16=True)
    DPOTrainer(model=llama(), ref_model=llama(), args=settings, train_dataset=rows, processing_class=tokenizer()).train()


def trl_grpo():
    """`GRPOTrainer` on a Llama of 4 layers, with answers of 32 tokens that the model generates"""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    rows = Dataset.from_dict({"prompt": ["the memory of a step"] * 16})
    settings = GRPOConfig(output_dir=tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=4, num_generations=4, max_completion_length=32,
                          report_to=[], save_strategy="no", bf16=True)
    GRPOTrainer(model=llama(), reward_funcs=lambda completions, **_: [float(len(one)) for one in completions], args=settings, train_dataset=rows,
                processing_class=tokenizer()).train()


def trl_rloo():
    """`RLOOTrainer` on a Llama of 4 layers, with answers of 32 tokens that the model generates, without a reference model"""
    from datasets import Dataset
    from trl import RLOOConfig, RLOOTrainer

    rows = Dataset.from_dict({"prompt": ["the memory of a step"] * 16})
    settings = RLOOConfig(output_dir=tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=4, num_generations=4, max_completion_length=32,
                          beta=0.0, report_to=[], save_strategy="no", bf16=True)
    RLOOTrainer(model=llama(), reward_funcs=lambda completions, **_: [float(len(one)) for one in completions], args=settings, train_dataset=rows,
                processing_class=tokenizer()).train()


def accelerate_loop():
    """`Accelerator` in bfloat16, two micro-batches a step, a checkpoint of the state"""
    import accelerate
    import torch

    accelerator = accelerate.Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(96, 1024)), batch_size=16)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), loader)
    for (rows,) in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(rows).sum())
            optimizer.step()
            optimizer.zero_grad()
    accelerator.save_state(tempfile.mkdtemp())


def accelerate_finds_a_batch():
    """`find_executable_batch_size` from 1,048,576 rows down"""
    import accelerate.utils
    import torch

    @accelerate.utils.find_executable_batch_size(starting_batch_size=1 << 20)
    def attempt(batch):
        model = torch.nn.Sequential(torch.nn.Linear(4096, 16384), torch.nn.GELU(), torch.nn.Linear(16384, 16)).cuda()
        train(model, lambda net: net(torch.zeros(batch, 4096, device="cuda")).sum())

    attempt()


def diffusers_unet():
    """A UNet with cross attention in training, 4 latents of 32 x 32, AdamW"""
    import torch
    from diffusers import DDPMScheduler, UNet2DConditionModel

    model = UNet2DConditionModel(sample_size=32, block_out_channels=(64, 128), cross_attention_dim=256, attention_head_dim=8, norm_num_groups=32,
                                 down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")).cuda()
    scheduler, latents, text = DDPMScheduler(), torch.zeros(4, 4, 32, 32, device="cuda"), torch.zeros(4, 77, 256, device="cuda")

    def loss(net):
        times = torch.randint(0, 1000, (4,), device="cuda")
        noise = torch.randn_like(latents)
        return torch.nn.functional.mse_loss(net(scheduler.add_noise(latents, noise, times), times, text).sample, noise)

    train(model, loss)


def diffusers_flux():
    """A transformer of Flux with 2 + 2 blocks in training, AdamW"""
    import torch
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel(num_layers=2, num_single_layers=2, attention_head_dim=64, num_attention_heads=8, joint_attention_dim=256,
                                   pooled_projection_dim=128, axes_dims_rope=(8, 28, 28), in_channels=64).cuda()
    make = torch.zeros
    inputs = {"hidden_states": make(2, 256, 64), "encoder_hidden_states": make(2, 64, 256), "pooled_projections": make(2, 128), "timestep": make(2),
              "img_ids": make(256, 3), "txt_ids": make(64, 3)}
    inputs = {name: values.cuda() for name, values in inputs.items()}
    train(model, lambda net: net(**inputs).sample.sum())


def diffusers_decoder():
    """`AutoencoderKL` of Stable Diffusion's sizes, an image of 512 x 512 from its latents, in 16 bits"""
    import torch
    from diffusers import AutoencoderKL

    model = AutoencoderKL(block_out_channels=(128, 256, 512, 512), layers_per_block=2, down_block_types=("DownEncoderBlock2D",) * 4,
                          up_block_types=("UpDecoderBlock2D",) * 4, latent_channels=4).half().cuda()
    with torch.no_grad():
        model.decode(torch.zeros(1, 4, 64, 64, device="cuda", dtype=torch.float16))


def diffusers_pipeline():
    """`DDIMPipeline`, two images of 64 x 64 in 4 steps"""
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

    model = UNet2DModel(sample_size=64, block_out_channels=(64, 128), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                        up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    DDIMPipeline(model, DDIMScheduler()).to("cuda")(batch_size=2, num_inference_steps=4)


def lightning_fit(**settings):
    import lightning
    import torch

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024))

        def training_step(self, batch, _):
            loss = self.net(batch[0]).sum()
            self.log("loss", loss, prog_bar=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(512, 1024)), batch_size=16)
    lightning.Trainer(max_steps=STEPS, accelerator="gpu", logger=False, enable_checkpointing=False, **settings).fit(Net(), loader)


def lightning_trainer():
    """`Trainer.fit` with 16-bit autocast"""
    lightning_fit(precision="16-mixed", devices=1)


def lightning_ddp():
    """`Trainer.fit` with DDP on 2 GPUs, which Lightning starts"""
    lightning_fit(strategy="ddp", devices=2)


def deepspeed_zero(stage, **changes):
    import deepspeed
    import torch

    config = {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "zero_optimization": {"stage": stage, **changes},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}}
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)])
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    for _ in range(STEPS):
        engine.backward(engine(torch.zeros(4, 1024, device=engine.device, dtype=torch.bfloat16)).sum())
        engine.step()


def deepspeed_zero_1():
    """ZeRO-1, one rank of 8"""
    deepspeed_zero(1)


def deepspeed_zero_2():
    """ZeRO-2, one rank of 8"""
    deepspeed_zero(2)


def deepspeed_zero_3():
    """ZeRO-3, one rank of 8"""
    deepspeed_zero(3)


def deepspeed_zero_3_offload():
    """ZeRO-3 with parameters and optimizer on the host, one rank of 8"""
    deepspeed_zero(3, offload_param={"device": "cpu", "pin_memory": True}, offload_optimizer={"device": "cpu", "pin_memory": True})


def titan(*options):
    """Trains torchtitan's small Llama 3 with its own program, on a few words."""
    import json
    import pathlib
    import runpy

    folder = pathlib.Path(tempfile.mkdtemp())
    tokenizer().backend_tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "data").mkdir()
    (folder / "data" / "data.json").write_text(json.dumps({"text": "the memory of a step " * 5000}) + "\n")
    sys.argv = ["train", "--job.dump-folder", str(folder), "--model.hf-assets-path", str(folder), "--training.dataset-path", str(folder / "data"),
                "--training.steps", str(STEPS), "--training.local-batch-size", "2", "--training.seq-len", "512", *options]
    runpy.run_module("torchtitan.train", run_name="__main__")


def torchtitan_fsdp():
    """Llama 3 of its flavour `debugmodel` with FSDP2, one rank of 8"""
    titan()


def torchtitan_tensor_parallel():
    """Llama 3 with FSDP2 over 2 ranks and tensor parallel over 4, one rank of 8"""
    titan("--parallelism.tensor-parallel-degree", "4")


def megatron_core_gpt():
    """A GPT of 4 layers with its own layers (no Transformer Engine), tensor parallel over 2 ranks and pipeline over 2, one rank of 8"""
    import os

    import torch
    from megatron.core import parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer.transformer_config import TransformerConfig

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    parallel_state.initialize_model_parallel(2, 2)
    model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(num_layers=4, hidden_size=512, num_attention_heads=8, tensor_model_parallel_size=2, pipeline_model_parallel_size=2,
                               pipeline_dtype=torch.bfloat16, bf16=True, gradient_accumulation_fusion=False, masked_softmax_fusion=False)
    model = GPTModel(config, get_gpt_layer_local_spec(normalization="LayerNorm"), 8192, 512, pre_process=parallel_state.is_pipeline_first_stage(),
                     post_process=parallel_state.is_pipeline_last_stage())
    model = DistributedDataParallel(config, DistributedDataParallelConfig(use_distributed_optimizer=True), model.cuda().bfloat16())
    optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=1e-4, bf16=True, use_distributed_optimizer=True), [model])

    def forward(_, net):
        words, places = tokens(4, 512), torch.arange(512, device="cuda").expand(4, -1)
        mask = torch.ones(4, 1, 512, 512, dtype=torch.bool, device="cuda").triu(1)
        return net(words, places, mask, labels=words), lambda losses: (losses.float().mean(), {})

    for _ in range(STEPS):
        optimizer.zero_grad()
        model.zero_grad_buffer()
        get_forward_backward_func()(forward_step_func=forward, data_iterator=None, model=model, num_microbatches=4, seq_length=512,
                                    micro_batch_size=4, forward_only=False)
        model.finish_grad_sync()
        optimizer.step()


def transformer_engine_layer():
    """`TransformerLayer` of width 1,024, bfloat16, AdamW"""
    import torch
    from transformer_engine.pytorch import TransformerLayer

    layer = TransformerLayer(1024, 4096, 16, params_dtype=torch.bfloat16).cuda()
    train(layer, lambda net: net(torch.zeros(512, 4, 1024, device="cuda", dtype=torch.bfloat16)).float().sum())


def torchao_optimizers():
    """8-bit AdamW on a Llama of 4 layers"""
    import torchao

    model = llama().cuda()
    train(model, lambda net: net(input_ids=tokens(), labels=tokens()).loss, torchao.optim.AdamW8bit(model.parameters()))


def torchao_host_optimizer():
    """`CPUOffloadOptimizer` with gradients on the host, on a Llama of 4 layers"""
    import torch
    import torchao

    model = llama().cuda()
    optimizer = torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, offload_gradients=True)
    train(model, lambda net: net(input_ids=tokens(), labels=tokens()).loss, optimizer)


def torchao_float8():
    """`convert_to_float8_training` of a Llama of 4 layers in bfloat16"""
    import torch
    from torchao.float8 import convert_to_float8_training

    model = llama(dtype=torch.bfloat16).cuda()
    train(convert_to_float8_training(model), lambda net: net(input_ids=tokens(), labels=tokens()).loss)


def torchao_int8_weights():
    """`quantize_` with 8-bit weights, and a forward pass of a Llama of 4 layers"""
    import torch
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = llama(dtype=torch.bfloat16).cuda()
    quantize_(model, Int8WeightOnlyConfig())
    with torch.no_grad():
        model(input_ids=tokens())


def bitsandbytes_optimizers():
    """8-bit AdamW on a Llama of 4 layers"""
    import bitsandbytes

    model = llama().cuda()
    train(model, lambda net: net(input_ids=tokens(), labels=tokens()).loss, bitsandbytes.optim.AdamW8bit(model.parameters()))


def bitsandbytes_paged():
    """Paged 8-bit AdamW on a Llama of 4 layers"""
    import bitsandbytes

    model = llama().cuda()
    train(model, lambda net: net(input_ids=tokens(), labels=tokens()).loss, bitsandbytes.optim.PagedAdamW8bit(model.parameters()))


def bitsandbytes_8_bits():
    """`LLM.int8()`: a Llama of 4 layers with 8-bit weights, a forward pass"""
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    folder = tempfile.mkdtemp()
    llama(dtype=torch.float16).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, quantization_config=BitsAndBytesConfig(load_in_8bit=True), device_map={"": 0})
    with torch.no_grad():
        model(input_ids=tokens())


def vllm_generates():
    """`LLM` with `load_format="dummy"` and `enforce_eager`, a Llama of 4 layers: its cache, and 16 tokens for each of 4 prompts"""
    generate_with_vllm(enforce_eager=True)


def vllm_compiled():
    """`LLM` as above, compiled, with CUDA graphs, in one process (`VLLM_ENABLE_V1_MULTIPROCESSING=0`)"""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    generate_with_vllm()


def generate_with_vllm(**settings):
    from vllm import LLM, SamplingParams

    with tempfile.TemporaryDirectory() as folder:
        llama_config(architectures=["LlamaForCausalLM"]).save_pretrained(folder)
        engine = LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, **settings)
        answers = engine.generate([{"prompt_token_ids": [1] * 32}] * 4, SamplingParams(max_tokens=16, ignore_eos=True, detokenize=False))
        assert [len(one.outputs[0].token_ids) for one in answers] == [16] * 4


def sglang_generates():
    """`Engine` with `load_format="dummy"`, a Llama of 4 layers: its cache, and 16 tokens for each of 4 prompts"""
    import sglang

    with tempfile.TemporaryDirectory() as folder:
        llama_config(architectures=["LlamaForCausalLM"]).save_pretrained(folder)
        engine = sglang.Engine(model_path=folder, load_format="dummy", skip_tokenizer_init=True)
        answers = engine.generate(input_ids=[[1] * 32] * 4, sampling_params={"max_new_tokens": 16, "ignore_eos": True})
        assert [len(one["output_ids"]) for one in answers] == [16] * 4
        engine.shutdown()


def xformers_attention():
    """`memory_efficient_attention` forward and backward, causal, bfloat16"""
    import torch
    import xformers.ops

    layer = torch.nn.Linear(512, 1536, device="cuda", dtype=torch.bfloat16)

    def loss(net):
        queries, keys, values = net(torch.zeros(2, 1024, 512, device="cuda", dtype=torch.bfloat16)).view(2, 1024, 3, 8, 64).unbind(2)
        return xformers.ops.memory_efficient_attention(queries, keys, values, attn_bias=xformers.ops.LowerTriangularMask()).sum()

    train(layer, loss)


def flash_attn_attention():
    """`flash_attn_func` forward and backward, causal, bfloat16"""
    import flash_attn
    import torch

    layer = torch.nn.Linear(512, 1536, device="cuda", dtype=torch.bfloat16)

    def loss(net):
        queries, keys, values = net(torch.zeros(2, 1024, 512, device="cuda", dtype=torch.bfloat16)).view(2, 1024, 3, 8, 64).unbind(2)
        return flash_attn.flash_attn_func(queries, keys, values, causal=True).sum()

    train(layer, loss)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
