//! The chart: linted, rendered with several sets of values, and compared with the schemas of Kubernetes.

use super::super::{Release, files_below};
use crate::interop::tool;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// The oldest and a recent version of Kubernetes to check against.
const KUBERNETES: [&str; 2] = ["1.25.0", "1.37.0"];

pub(super) fn check(release: &Release) -> Result<()> {
    ensure!(tool::exists("helm"), "helm is missing\nhint: go install helm.sh/helm/v3/cmd/helm@v3.18.6");
    let directory = tempfile::tempdir()?;
    let chart = release.output.join(format!("oxkeeper-{}.tgz", release.version));
    let validate = super::python(directory.path(), &["kubernetes-validate"])?.join("kubernetes-validate");
    let checks = release.source("helm/checks");
    let mut values = vec![None];
    values.extend(files_below(&checks)?.iter().map(|file| Some(checks.join(file))));
    for values in &values {
        let name = values.as_ref().and_then(|path| path.file_stem()).map_or("default".into(), |name| name.to_owned());
        let rendered = directory.path().join(&name).with_extension("yaml");
        renders(&chart, values.as_deref(), &rendered).with_context(|| format!("values {}", name.display()))?;
        for version in KUBERNETES {
            let mut command = Command::new(&validate);
            // The schema of ServiceMonitor belongs to Prometheus's operator.
            command.args(["--quiet", "--strict", "--kubernetes-version", version]).arg(&rendered);
            tool::run(&mut command).with_context(|| format!("values {}", name.display()))?;
        }
    }
    refuses(&chart, &["replicas=2"])?;
    refuses(&chart, &["tls.client.enabled=true"])
}

fn renders(chart: &Path, values: Option<&Path>, target: &Path) -> Result<()> {
    let helm = |task: &str| {
        let mut helm = Command::new("helm");
        helm.arg(task);
        if task == "template" {
            helm.args(["zk", "--namespace", "storage", "--kube-version", KUBERNETES[0]]);
        }
        helm.arg(chart);
        if let Some(values) = values {
            helm.arg("--values").arg(values);
        }
        helm
    };
    tool::run(helm("lint").arg("--strict"))?;
    let text = tool::output(&mut helm("template"))?;
    // Not a type of Kubernetes itself.
    let (own, others): (Vec<&str>, Vec<&str>) =
        text.split("\n---\n").partition(|document| !document.contains("kind: ServiceMonitor"));
    ensure!(others.len() <= 1, "there are {} service monitors", others.len());
    std::fs::write(target, own.join("\n---\n"))?;
    if let Some((_, constraints)) = text.split_once("topologySpreadConstraints:") {
        has_values_of_secure(constraints, &text)?;
    }
    is_an_ensemble(&text)
}

/// Checks what `secure.yaml` replaces, and what it leaves to the chart.
fn has_values_of_secure(constraints: &str, text: &str) -> Result<()> {
    ensure!(text.contains("client.certReload=false"), "`false` does not replace a setting of the chart");
    let constraints = constraints.split("containers:").next().unwrap_or_default();
    ensure!(constraints.contains("labelSelector:"), "a spread constraint without a selector counts no pods");
    ensure!(text.contains("replacement: \"zookeeper\""), "the alerts expect the job zookeeper");
    Ok(())
}

/// Checks what an ensemble cannot do without.
fn is_an_ensemble(text: &str) -> Result<()> {
    let replicas = text.lines().find_map(|line| line.strip_prefix("  replicas: ")).context("no replicas")?;
    let servers = text.lines().filter(|line| line.starts_with("    server.")).count();
    ensure!(servers.to_string() == replicas, "{servers} servers for {replicas} replicas");
    ensure!(!text.contains("e+0"), "a number is not written as an integer");
    for needed in ["publishNotReadyAddresses: true", "podManagementPolicy: Parallel", "path: /readyz", "path: /livez"] {
        ensure!(text.contains(needed), "the chart has no `{needed}`");
    }
    ensure!((replicas == "1") != text.contains("kind: PodDisruptionBudget"), "disruption budget of {replicas} servers");
    Ok(())
}

/// Values with which no ensemble would work.
fn refuses(chart: &Path, settings: &[&str]) -> Result<()> {
    let mut helm = Command::new("helm");
    helm.args(["template", "zk", "--kube-version", KUBERNETES[0]]).arg(chart);
    settings.iter().for_each(|setting| _ = helm.args(["--set", setting]));
    ensure!(!helm.output()?.status.success(), "the chart accepts {settings:?}");
    Ok(())
}
