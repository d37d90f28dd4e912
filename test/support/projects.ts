import { type Asked, programFor } from "../e2e/program";
import { Project, type ProjectOptions } from "../e2e/project";
import { disposeAll } from "./dispose";
import { test as base } from "./hosts";

/** `test` with Pulumi projects beside hosts. What was made of them on this machine goes with the test or the file. */
export const test = base
  /** Makes a project for this test, with its stack. */
  .extend("newProject", async ({}, { onCleanup }) => {
    const made: Project[] = [];
    onCleanup(() => disposeAll(made));
    return (program: string, options: Omit<ProjectOptions, "program"> = {}): Promise<Project> => {
      const project = new Project({ program, ...options });
      made.push(project);
      return project.init();
    };
  })
  /** What the instance of `project` is at first; a file says otherwise with `test.override`. */
  .extend("instance", { scope: "file" }, {} as Asked)
  /** The one project of all tests of a file, with one instance on `host`. */
  .extend("project", { scope: "file" }, async ({ host, instance }, { onCleanup }) => {
    const project = new Project({ program: programFor(host, instance) });
    onCleanup(() => project[Symbol.asyncDispose]());
    return project.init();
  });
