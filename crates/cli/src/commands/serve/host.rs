//! The settings and checks that the server obtains from the binary.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sortie::SkillFolders;
use sortie_core::ports::workspace::Skills as _;
use sortie_core::skill::SkillRef;
use sortie_models::{Directory, OFFLINE_MODEL, USUAL_TIMEOUT, discover, usual_endpoints};
use sortie_protocol::{ConfigLine, DoctorLine};
use sortie_server::{Host, HostError};
use tokio::sync::Mutex;

use crate::commands::doctor;
use crate::settings::Settings;

/// How long found models are reused: every page that opens asks for them, and each search sends
/// requests to the model servers of this machine.
const MODELS_LIFE: Duration = Duration::from_secs(30);

/// The settings of this process that the API exposes.
#[derive(Debug)]
pub(super) struct Doors {
    settings: Settings,
    skills: SkillFolders,
    directory: Arc<Directory>,
    /// The models that were found last, and when.
    models: Mutex<Option<(Instant, Vec<String>)>>,
}

impl Doors {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            skills: SkillFolders::new(&settings.options),
            directory: settings.options.model_directory(Duration::ZERO, None),
            models: Mutex::default(),
        }
    }

    /// Returns the models of vendors whose key is set and of model servers that respond, and the
    /// built-in one.
    async fn find_models(&self) -> Vec<String> {
        let variables = self.settings.options.environment.variables();
        let servers = discover(&usual_endpoints(&variables), USUAL_TIMEOUT).await;
        let vendors = self.directory.vendors().into_iter();
        let hosted = vendors
            .filter(|vendor| vendor.key_present)
            .flat_map(|vendor| [vendor.default_model, vendor.small_model])
            .flatten();
        let local = servers.into_iter().flat_map(|server| server.models);
        let all = hosted
            .chain(local.map(|model| model.name))
            .chain([OFFLINE_MODEL.to_owned()]);
        let mut models: Vec<String> = Vec::new();
        for model in all {
            if !models.contains(&model) {
                models.push(model);
            }
        }
        models
    }
}

#[async_trait]
impl Host for Doors {
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    async fn config(&self) -> Result<Vec<ConfigLine>, HostError> {
        let shown = sortie_config::show(&self.settings.configuration.loaded);
        let lines = shown.into_iter().map(|key| ConfigLine {
            value: key.text(),
            key: key.key.to_string(),
            origin: key.origin.to_string(),
        });
        Ok(lines.collect())
    }

    async fn doctor(&self) -> Result<Vec<DoctorLine>, HostError> {
        let checks = doctor::checks(&self.settings).await;
        Ok(checks.iter().map(doctor::Check::to_line).collect())
    }

    async fn models(&self) -> Result<Vec<String>, HostError> {
        let mut found = self.models.lock().await;
        let fresh = found.as_ref().filter(|(at, _)| at.elapsed() < MODELS_LIFE);
        if let Some((_, models)) = fresh {
            return Ok(models.clone());
        }
        let models = self.find_models().await;
        *found = Some((Instant::now(), models.clone()));
        Ok(models)
    }

    async fn skills(&self, workspace: &Path) -> Result<Vec<SkillRef>, HostError> {
        let (skills, workspace) = (self.skills.clone(), workspace.to_owned());
        let found = tokio::task::spawn_blocking(move || skills.in_workspace(&workspace));
        found.await.map_err(|error| HostError(error.to_string()))
    }
}
