import { expect, test } from "vitest";
import { qualifiedType } from "../../../provider/owner";

const TYPE = "pulumi-nodejs:dynamic/vgpu:VgpuInstance";

test.each([
  ["no parent", "", TYPE],
  ["the stack", "urn:pulumi:dev::e2e::pulumi:pulumi:Stack::e2e-dev", TYPE],
  ["a component", "urn:pulumi:dev::e2e::my:index:Pool::pool", `my:index:Pool$${TYPE}`],
  ["a component in a component", "urn:pulumi:dev::e2e::a:b:C$d:e:F::x", `a:b:C$d:e:F$${TYPE}`],
  ["a parent whose name has colons", "urn:pulumi:dev::e2e::a:b:C::x::y::z", `a:b:C$${TYPE}`],
  ["a parent whose name has a dollar", "urn:pulumi:dev::e2e::a:b:C::x$y", `a:b:C$${TYPE}`],
  ["a parent whose type is one word", "urn:pulumi:dev::e2e::Odd::x", `Odd$${TYPE}`],
])("R-23 the owner's type under %s", (_, parent, qualified) => {
  expect(qualifiedType(TYPE, parent)).toBe(qualified);
});
