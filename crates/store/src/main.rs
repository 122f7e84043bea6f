//! The program `longhaul-store`.

fn main() -> std::process::ExitCode {
    longhaul_store::main()
}
