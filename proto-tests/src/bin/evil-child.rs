//! `evil-child BEHAVIOUR [ARGS…]`: a scriptable MCP child with one good behaviour and many bad ones. Without
//! arguments it lists its behaviours. They are all in `proto_tests::evil`.

use std::process::ExitCode;

use proto_tests::evil;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Some((name, rest)) = args.split_first()
        && let Some(behaviour) = evil::find(name)
    {
        behaviour.run(rest);
        return ExitCode::SUCCESS;
    }
    for behaviour in evil::behaviours() {
        eprintln!("{:28} {}", behaviour.name, behaviour.says);
    }
    ExitCode::from(2)
}
