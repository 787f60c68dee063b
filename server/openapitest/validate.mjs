// Validates the description with the parser that documentation sites use.
import { validate, compileErrors } from "@readme/openapi-parser";

const result = await validate(process.argv[2]);
if (!result.valid) {
  console.error(compileErrors(result));
  process.exit(1);
}
