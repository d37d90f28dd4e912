import { readFileSync } from "node:fs";
import * as pulumi from "@pulumi/pulumi";
import { type Memory, VgpuInstance } from "pulumi-vgpu";

const config = new pulumi.Config();
const keyFile = config.get("privateKeyFile");
const image = config.get("image");

const trainer = new VgpuInstance("trainer-1", {
  host: config.require("host"),
  connection: {
    port: config.requireNumber("port"),
    user: config.require("user"),
    // Without these: the SSH agent or the default identity files, and known_hosts.
    privateKey: keyFile ? readFileSync(keyFile, "utf8") : undefined,
    hostKey: config.get("hostKey"),
  },
  profile: config.require("profile"),
  vcpus: config.requireNumber("vcpus"),
  memory: config.require<Memory>("memory"),
  image: image ? { file: image } : undefined,
  shutdownTimeout: "30s",
});

export const instance = trainer.instanceId;
export const state = trainer.state;
export const gpu = trainer.gpuAddress;
export const virtualFunction = trainer.vfAddress;
export const typeId = trainer.typeId;
export const assignedAt = trainer.assignedAt;
